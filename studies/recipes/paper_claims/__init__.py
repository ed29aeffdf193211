"""The paper's checkable sentences, each with a function that puts it to the test and a rule for its verdict.

claim           what a claim is, its figure, its rule
runs            the models that are trained for claims
attention       sections 3.1 to 3.3: attention, heads, stacks
positions       sections 3.4 and 3.5: embeddings and positions
layers          section 4: Table 1
training        section 5: schedule, warm-up, regularisation
variations      section 6: checkpoints, search, Tables 2 and 3
parsing         sections 4 and 6.3: what heads attend to, trees
"""
