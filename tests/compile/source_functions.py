"""Functions whose control flow depends on tensors, each with arguments that take every way."""

import needle as ndl


def sign(x):
    if x.sum() > 0:
        return x * 2
    return -x


def ladder(x):
    s = x.sum()
    if s > 3:
        y = x * 3
    elif s > 0:
        y = x + 1
    elif s < -3 or s == 0:
        y = -x
    else:
        y = x * x
    return y.sum() + s


def nested(x):
    y = x
    if x.sum() > 0:
        if x[0] > 1:
            y = y * 3
        else:
            y = y - 1
            if y.sum() < 0:
                return y * 7
    else:
        y = ndl.exp(y)
    return y + x


def doubling(x):
    n = 0
    while x.sum() < 50:
        x = x * 2
        n += 1
        if n > 5:
            break
    else:
        x = x + 0.5
    return x * n


def odd_steps(x):
    total = x * 0
    for i in range(6):
        if (x * i).sum() > 6:
            continue
        if total.sum() > 20:
            break
        total += x * i + 1
    return total


def found(x):
    for i in range(4):
        for j in range(3):
            if x[0] * i + j > 3:
                return x * (10 * i + j)
    return x


def while_true(x):
    while True:
        x = x + abs(x[0]) + 1
        if x.sum() > 30:
            return x
        if not (x[0] < 4):
            continue
        x = x * 1.5


def nested_loops(x):
    rows = x * 0
    while rows.sum() < 20:
        step = x * x + 1
        while step.sum() < 4:
            step = step * 2
        rows = rows + step
    return rows


def conditional(x):
    y = x * 2 if x.sum() > 0 else -x
    low, high = -1 < x[0] < 1, x[0] > 2 and x[1] > 2
    return y * (3 if low else 1) + (1 if high or not low else 0)


def in_place(x):
    y = x * 1
    kept = y
    if x.sum() > 0:
        y[0] = 9.0
        y += 1
    return y + kept


def both_ways(x):
    state = {"a": x, "b": (x, 1)}
    if x.sum() > 0:
        state = {"a": x * 2, "b": (x, 2)}
    return state["a"] * state["b"][1]


FUNCTIONS = [
    sign,
    ladder,
    nested,
    doubling,
    odd_steps,
    found,
    while_true,
    nested_loops,
    conditional,
    in_place,
    both_ways,
]
INPUTS = [
    [1.0, 2.0, 0.5],
    [-1.0, -2.0, 0.5],
    [4.0, 3.0, 2.5],
    [0.25, 0.5, 0.125],
    [-0.5, 0.25, -0.25],
    [1.5, -1.0, -0.5],
]
