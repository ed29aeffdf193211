"""The training loop and its parts (section 5).

loop.py            the loop: schedule, accumulate, step, log, validate and save
loss.py            the loss of a batch
optim.py           Adam, the learning rate, the norm of the gradient
validation.py      validation loss and BLEU, and the best weights
divergence.py      updates whose loss or gradient is not finite
schedule.py        when to validate, to save and to stop; the clock
moving_average.py  exponential moving average of the weights
starting_point.py  random weights or those of a model; parts that do not learn
run.py             what a run consists of; start, save, resume
texts.py           texts, vocabulary and batches of a run
state.py           what a checkpoint holds besides weights and moments
process.py         training in one process
data_parallel.py   training in several processes
"""
