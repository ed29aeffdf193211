"""A tensor and its gradient: fit a line by gradient descent.

Run it with `python -m examples.tensor` in the project's directory.
"""

import numpy as np

import autograd as ag

# A Tensor holds an array. What is computed from it is recorded, and backward() follows the record from end to start.
x = ag.Tensor(np.array([1.0, 2.0, 3.0]), requires_grad=True)
y = (x * x).sum()
y.backward()
print("x          ", x.numpy())
print("d(x·x)/dx  ", x.grad.numpy())  # 2x

# Gradients of a loss by parameters are all that training needs. The data: y = 3x - 1 with noise.
rng = np.random.default_rng(0)
inputs = rng.uniform(-1, 1, (100, 1))
targets = 3 * inputs - 1 + 0.01 * rng.standard_normal((100, 1))

weight = ag.Tensor(np.zeros((1, 1)), requires_grad=True)
bias = ag.Tensor(np.zeros(1), requires_grad=True)
for _ in range(200):
    error = inputs @ weight + bias - targets
    loss = (error * error).mean()
    weight.grad = bias.grad = None  # gradients accumulate until they are set to None
    loss.backward()
    with ag.no_grad():  # an update is not part of the function that is differentiated
        weight -= 0.5 * weight.grad
        bias -= 0.5 * bias.grad

print(f"fitted      y = {weight.item():.2f}x {bias.item():+.2f}")
