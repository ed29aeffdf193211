"""The training loop and its parts (section 5).

loop.py            the loop: schedule, accumulate, step, log, validate and save
loss.py            the loss of a batch
optim.py           Adam, the learning rate, the norm of the gradient
validation.py      validation loss and BLEU, and the best weights
saving.py          checkpoints: save and restore
divergence.py      updates whose loss or gradient is not finite
schedule.py        when to validate, to save and to stop
moving_average.py  exponential moving average of the weights
state.py, clock.py what a resumed run continues from
run.py, start.py   what a run consists of; how it starts or resumes
texts.py           texts, vocabulary and batches
process.py         training in one process
data_parallel.py   training in several processes
final_scores.py    scores and samples on the test set, when training is done
"""
