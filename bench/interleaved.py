"""Times several programs in one process so that none gains from its place in the row.

Each round runs all of them in a fresh random order. A program first runs once untimed, which ends what the one before it left
behind (its weights in the caches, ONNX Runtime's threads that spin for a while after a run), then once timed: what a user who runs
one model again and again sees.
"""

import time

import numpy as np


def interleaved_ms(runs, rounds, inputs=None, warmup=2, seed=7):
    """Milliseconds of each round by label: {label: array [rounds]}.

    runs: {label: callable}. inputs: a list whose elements are passed to the callables in turn, one a round; None calls them
    without arguments. The first `warmup` rounds are not kept.
    """
    rng = np.random.default_rng(seed)
    times = {label: [] for label in runs}
    for turn in range(rounds + warmup):
        arguments = () if inputs is None else (inputs[turn % len(inputs)],)
        for label in rng.permutation(list(runs)):
            runs[label](*arguments)
            start = time.perf_counter()
            runs[label](*arguments)
            if turn >= warmup:
                times[label].append((time.perf_counter() - start) * 1e3)
    return {label: np.array(values) for label, values in times.items()}
