"""What programs import beside tensors: records of runs, processes, profiles, local models."""

from __future__ import annotations

from pathlib import Path

import pytest

import needle.torch as torch
from needle.torch.nn.parallel import DistributedDataParallel
from needle.torch.profiler import profile, record_function, schedule
from needle.torch.utils.tensorboard import SummaryWriter


def test_records_that_tensorboard_reads(tmp_path: Path) -> None:
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with SummaryWriter(tmp_path) as writer:
        for step in range(3):
            writer.add_scalar("loss", torch.tensor(0.5 * step), step)
        writer.add_histogram("weights", torch.arange(10.0), 1)
        writer.add_image("picture", torch.rand(3, 4, 5), 2)
        writer.add_text("words", "hello", 2)
        writer.add_scalars("both", {"a": 1.0}, 0)
    found = reading.EventAccumulator(str(tmp_path)).Reload()
    assert [(e.step, e.value) for e in found.Scalars("loss")] == [(0, 0.0), (1, 0.5), (2, 1.0)]
    spread = found.Histograms("weights")[0].histogram_value
    assert (spread.num, spread.sum, sum(spread.bucket)) == (10, 45, 10)
    image = found.Images("picture")[0]
    assert (image.step, image.height, image.width) == (2, 4, 5)
    assert found.Tensors("words/text_summary")[0].tensor_proto.string_val == [b"hello"]
    assert (tmp_path / "both_a").is_dir()


def test_a_world_of_one() -> None:
    dist = torch.distributed
    with pytest.raises(ValueError, match="has not been initialized"):
        DistributedDataParallel(torch.nn.Linear(2, 2))
    with pytest.raises(NotImplementedError, match=r"needle\.distributed"):
        dist.init_process_group("gloo", rank=0, world_size=2)
    dist.init_process_group("gloo", rank=0, world_size=1)
    try:
        model = DistributedDataParallel(torch.nn.Linear(2, 2))
        assert list(model.state_dict()) == ["module.weight", "module.bias"]
        total, parts = torch.ones(2), [torch.zeros(2)]
        dist.all_reduce(total)
        dist.all_gather(parts, total)
        assert parts[0].tolist() == [1, 1]
        assert (dist.get_rank(), dist.get_world_size()) == (0, 1)
    finally:
        dist.destroy_process_group()
    assert not dist.is_initialized()


def _write(rank: int, folder: Path) -> None:
    (folder / str(rank)).write_text("here")


def _fail(rank: int) -> None:
    raise SystemExit(3)


def test_processes(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(_write, (tmp_path,), nprocs=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]
    with pytest.raises(torch.multiprocessing.ProcessRaisedException, match="exit code 3"):
        torch.multiprocessing.spawn(_fail)


def test_profiles() -> None:
    seen = []
    plan = schedule(wait=1, warmup=1, active=2, repeat=1)
    with profile(schedule=plan, on_trace_ready=lambda p: seen.append(p.key_averages())) as running:
        for _ in range(6):
            with record_function("work"):
                torch.ones(3).sum()
            running.step()
    assert [(row.key, row.count) for rows in seen for row in rows] == [("work", 2)]
    assert "work" in seen[0].table(sort_by="cpu_time_total")


def test_local_models(tmp_path: Path) -> None:
    (tmp_path / "hubconf.py").write_text("def scaled(by):\n    'Times.'\n    return by * 2\n")
    assert torch.hub.load(str(tmp_path), "scaled", 4, source="local") == 8
    assert torch.hub.list(str(tmp_path), source="local") == ["scaled"]
    with pytest.raises(NotImplementedError, match="nothing is fetched"):
        torch.hub.load("owner/name", "model")
    with pytest.raises(FileNotFoundError, match="nothing is fetched"):
        torch.hub.load_state_dict_from_url("scheme://place/file.pth", str(tmp_path))


def test_paths_of_files() -> None:
    from needle.torch.distributions.categorical import Categorical
    from needle.torch.optim.adamw import AdamW

    assert Categorical is torch.distributions.Categorical
    assert AdamW is torch.optim.AdamW


def test_all_schedules_come_with_a_star() -> None:
    from needle.torch.optim import lr_scheduler

    assert {"CyclicLR", "OneCycleLR"} <= set(lr_scheduler.__all__)
