"""The thread pool: same results for any size, fork, Ctrl-C, errors in pieces, idle workers."""

import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from needle import _native

from .helpers import Array, array, blank, run_script, threads

RNG = np.random.default_rng(0)
LARGE = RNG.standard_normal((700, 513)).astype(np.float32)


def elementwise():
    out = blank(LARGE.shape)
    _native.unary("tanh", out, array(LARGE))
    return out.numpy()


def column_sums():
    out = blank((1, LARGE.shape[1]))
    _native.reduce("sum", out, array(LARGE))
    return out.numpy()


def total():
    out = blank((1, 1))
    _native.reduce("sum", out, array(LARGE))
    return out.numpy()


def product():
    out = blank((700, 700))
    a = array(LARGE)
    _native.matmul(out, a, Array(a._handle, a.shape[::-1], a.strides[::-1]))
    return out.numpy()


def random_numbers():
    out = blank((200_001,))
    _native.random("normal", out, 7, 3)
    return out.numpy()


def running_sums():
    out = blank(LARGE.shape)
    _native.scan("cumsum", out, array(LARGE), 0)
    return out.numpy()


@pytest.mark.parametrize(
    "compute", [elementwise, column_sums, total, product, random_numbers, running_sums]
)
def test_results_do_not_depend_on_the_number_of_threads(compute):
    with threads(1):
        expected = compute()
    for count in (2, 3, 8):
        with threads(count):
            np.testing.assert_array_equal(compute(), expected)


def test_set_num_threads():
    with threads(3):
        assert _native.get_num_threads() == 3
    with pytest.raises(ValueError, match=r"\[set_num_threads\] expected 1 to 1024 threads, got 0"):
        _native.set_num_threads(0)
    with pytest.raises(TypeError, match=r"\[set_num_threads\] the number of threads must be int"):
        _native.set_num_threads(2.5)


def test_environment_sets_the_size():
    script = "from needle.backend.native import kernels; print(kernels.get_num_threads())"
    assert run_script(script, NEEDLE_NUM_THREADS="5").strip() == "5"


def test_many_python_threads_at_once():
    expected = np.tanh(LARGE)

    def work(_):
        return np.abs(elementwise() - expected).max()

    with threads(4), ThreadPoolExecutor(8) as pool:
        assert max(pool.map(work, range(64))) < 1e-6


def test_pool_changes_size_while_others_compute():
    with threads(2), ThreadPoolExecutor(4) as pool:
        results = [pool.submit(elementwise) for _ in range(40)]
        for count in (1, 4, 2, 3) * 5:
            _native.set_num_threads(count)
        expected = results[0].result()
        assert all(np.array_equal(r.result(), expected) for r in results)


def test_an_error_in_a_piece_reaches_the_caller():
    table, out = array(np.zeros((10, 64), np.float32)), blank((50_000, 64))
    indices = np.zeros(50_000, np.int64)
    indices[41_234] = 10
    with threads(4):
        with pytest.raises(IndexError, match=r"index 10 is out of bounds for axis of size 10"):
            _native.gather(out, table, (array(indices),))
        indices[41_234] = 9
        _native.gather(out, table, (array(indices),))


PRELUDE = """
import os, sys, threading, time
import numpy as np
from needle import _native
from tests.native.helpers import array, blank, Array
_native.set_num_threads(4)
x = array(np.full(1_000_000, 0.5, np.float32))

def compute():
    out = blank((1_000_000,))
    _native.unary("exp", out, x)
    return bool((out.numpy() == out.numpy()[0]).all())
"""


def test_fork_after_the_pool_has_started():
    script = """
assert compute()
pid = os.fork()
if pid == 0:
    os._exit(0 if compute() and compute() else 1)
assert os.waitpid(pid, 0)[1] == 0
assert compute()
print("both")
"""
    assert run_script(PRELUDE + script).strip() == "both"


def test_fork_while_other_threads_compute():
    script = """
stop = threading.Event()

def busy():
    while not stop.is_set():
        compute()

workers = [threading.Thread(target=busy) for _ in range(3)]
for worker in workers:
    worker.start()
for _ in range(15):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if compute() else 1)
    assert os.waitpid(pid, 0)[1] == 0
stop.set()
for worker in workers:
    worker.join()
print("all children computed")
"""
    assert run_script(PRELUDE + script).strip() == "all children computed"


# Of 2**44 elements, all of them the same one, or of many short steps: each would take an hour.
ENDLESS = {
    "many rows": """
endless, out = Array(x._handle, (2**18, 2**26), (0, 0)), blank((2**18, 1))
run = lambda: _native.reduce("sum", out, endless)
""",
    "one place": """
zero = array(np.zeros(1, np.int64))
endless, index = Array(x._handle, (2**44,), (0,)), Array(zero._handle, (2**44,), (0,))
run = lambda: _native.scatter("add", blank((1,)), (index,), endless)
""",
    "steps of a loop": """
import needle as ndl
scan = ndl.jit(lambda x, steps: ndl.scan(lambda c, _: ((c @ x).tanh(), None), x, steps)[0])
run = lambda: scan(ndl.ones(200, 200), ndl.zeros(2**22))
""",
}


@pytest.mark.parametrize("kernel", ENDLESS)
def test_ctrl_c_stops_a_long_kernel(kernel):
    script = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs may ignore it
try:
    print("started", flush=True)
    run()
except KeyboardInterrupt:
    print("interrupted" if compute() else "broken")
"""
    process = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + ENDLESS[kernel] + script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline().strip() == "started"
        time.sleep(0.3)  # for the kernel to begin
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert output.strip() == "interrupted", errors


def test_idle_workers_use_no_cpu_time():
    script = """
assert compute()
time.sleep(0.05)
before = time.process_time()
time.sleep(0.5)
print(time.process_time() - before)
"""
    assert float(run_script(PRELUDE + script)) < 0.02


def test_a_signal_handler_may_multiply_while_a_product_is_computed():
    script = """
import signal
a = array(np.random.default_rng(0).standard_normal((1600, 1600)).astype(np.float32))
b = array(np.ones((300, 2000)))  # float64: wants more memory for its panels
other, calls = blank((300, 300), "float64"), []

def multiply(*_):
    _native.matmul(other, b, Array(b._handle, b.shape[::-1], b.strides[::-1]))
    calls.append(other.numpy())

def product():
    out = blank((1600, 1600))
    _native.matmul(out, a, a)
    return out.numpy()

expected = product()
signal.signal(signal.SIGALRM, multiply)
same = True
for _ in range(4):
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    same &= np.array_equal(product(), expected)
signal.setitimer(signal.ITIMER_REAL, 0)
print(same, len(calls) > 0, all((c == 2000).all() for c in calls))
"""
    assert run_script(PRELUDE + script).split() == ["True"] * 3


def test_daemon_threads_that_compute_do_not_abort_the_exit():
    script = """
def busy():
    while True:
        compute()

for _ in range(3):
    threading.Thread(target=busy, daemon=True).start()
time.sleep(0.1)
print("done")
"""
    assert run_script(PRELUDE + script).strip() == "done"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_workers_leave_signals_to_the_program():
    script = """
import signal
before = set(os.listdir("/proc/self/task"))
assert compute()
workers = set(os.listdir("/proc/self/task")) - before
for task in workers:
    status = ""
    while "sleeping" not in status:  # a thread that is starting blocks all signals
        status = open(f"/proc/self/task/{task}/status").read()
    blocked = int(status.split("SigBlk:")[1].split()[0], 16)
    assert blocked >> (signal.SIGTERM - 1) & 1 and not blocked >> (signal.SIGSEGV - 1) & 1
print(len(workers), not signal.pthread_sigmask(signal.SIG_BLOCK, []))
"""
    assert run_script(PRELUDE + script).split() == ["3", "True"]
