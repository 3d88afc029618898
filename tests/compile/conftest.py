"""With NEEDLE_BACKEND=np nothing is compiled: functions run as they are."""

import pytest

import needle as ndl
from needle.compiler.ir.graph import verify
from needle.compiler.passes import simplify as passes
from needle.compiler.run import program as runtime

if ndl.BACKEND == "np":
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def numpy_generator():
    before = ndl.get_rng_state()
    yield
    ndl.set_rng_state(before)


@pytest.fixture(scope="module", autouse=True)
def verified():
    """Every pass gives a graph that keeps the rules; bodies of loops too."""

    def checked(a_pass):
        def then_verified(*args):
            made = a_pass(*args)
            verify(made[0] if isinstance(made, tuple) else made)
            return made

        return then_verified

    with pytest.MonkeyPatch.context() as patch:
        for name in ("without_dead", "folded", "applied_rules", "merged"):
            patch.setattr(passes, name, checked(getattr(passes, name)))
        for name, a_pass in runtime.PASSES.items():
            patch.setitem(runtime.PASSES, name, checked(a_pass))
        patch.setattr(runtime, "panels", checked(runtime.panels))
        yield
