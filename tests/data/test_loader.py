"""The loader: order, prefetching, streams, collation, position; and damaged files."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import needle as ndl
from needle.data import DataLoader, NDArrayDataset, RandomSampler
from tests.data.files import write_cifar10, write_idx, write_mnist


@given(st.integers(1, 40), st.integers(1, 9), st.booleans(), st.booleans(), st.integers(0, 3))
def test_every_item_once_in_the_drawn_order(n, size, shuffle, drop_last, prefetch):
    np.random.seed(n)
    order = np.random.permutation(n) if shuffle else np.arange(n)
    np.random.seed(n)
    loader = DataLoader(
        NDArrayDataset(np.arange(n)), size, shuffle, drop_last=drop_last, prefetch=prefetch
    )
    batches = [batch[0].numpy() for batch in loader]
    assert len(batches) == len(loader)
    kept = n - n % size if drop_last else n
    np.testing.assert_array_equal(np.concatenate([[], *batches]), order[:kept])


@pytest.mark.parametrize("prefetch", [0, 1, 4])
def test_prefetching_keeps_the_order_of_random_draws(tmp_path, prefetch):
    """Transforms draw when a batch is asked for, also when the model draws in between."""
    write_mnist(tmp_path)
    transforms = [ndl.data.RandomCrop(2), ndl.data.RandomFlipHorizontal()]
    dataset = ndl.data.MNIST(tmp_path, transforms=transforms)

    def run(depth):
        np.random.seed(5)
        seen = []
        for x, _ in DataLoader(dataset, 8, shuffle=True, prefetch=depth):
            seen.append((x.numpy().sum(), np.random.rand()))
        return seen

    assert run(prefetch) == run(0)


def test_labels_keep_integers_and_data_is_float32_without_gradient():
    x, y = next(iter(DataLoader(NDArrayDataset(np.ones((4, 2)), np.arange(4)), 4)))
    assert (x.dtype, y.dtype) == ("float32", "int64")
    assert not x.requires_grad


def test_tensors_go_to_the_device_without_their_history():
    rows = NDArrayDataset(ndl.Tensor(np.ones((4, 2))), ndl.tensor(np.arange(4)))
    whole = DataLoader(rows, 2, device=ndl.cpu_numpy())
    collated = DataLoader(rows, 2, device=ndl.cpu_numpy(), collate=lambda items: items[0])
    for batch in (*whole, *collated):
        assert all(x.device == ndl.cpu_numpy() and not x.requires_grad for x in batch)


def test_items_of_a_plain_sequence_are_collated():
    items = [{"image": np.full((2,), i), "label": i} for i in range(3)]
    batch = next(iter(DataLoader(items, 3)))
    np.testing.assert_array_equal(batch["image"].numpy(), [[0, 0], [1, 1], [2, 2]])
    np.testing.assert_array_equal(batch["label"].numpy(), [0, 1, 2])


def test_text_and_none_stay_as_they_are():
    items = [{"name": f"cat{i}.png", "label": i, "box": (i, "px")} for i in range(2)]
    batch = next(iter(DataLoader(items, 2)))
    assert batch["name"] == ("cat0.png", "cat1.png")
    assert batch["box"][1] == ("px", "px") and batch["label"].numpy().tolist() == [0, 1]
    made = DataLoader(items, 2, collate=lambda items: ([x["label"] for x in items], "text", None))
    labels, text, nothing = next(iter(made))
    assert [x.item() for x in labels] == [0, 1] and text == "text" and nothing is None


def test_collate_fn_is_another_name_of_collate():
    items = np.arange(4)
    for name in ("collate", "collate_fn"):
        loader = DataLoader(items, 2, **{name: lambda items: np.stack(items) * 10})
        assert [x.numpy().tolist() for x in loader] == [[0, 10], [20, 30]]
    with pytest.raises(TypeError, match=r"\[DataLoader\] give one of collate and collate_fn"):
        DataLoader(items, collate=list, collate_fn=list)


def test_own_dataset_needs_only_single_items():
    class Squares(ndl.data.Dataset):
        def __len__(self):
            return 5

        def __getitem__(self, index):
            return np.float32(index**2), index

    x, y = next(iter(DataLoader(Squares(), 5)))
    np.testing.assert_array_equal(x.numpy(), [0, 1, 4, 9, 16])
    np.testing.assert_array_equal(y.numpy(), np.arange(5))


@pytest.mark.parametrize("options", [{}, {"prefetch": 2}, {"num_workers": 2}])
def test_a_subclass_may_change_the_items_of_a_dataset_of_arrays(options):
    class Negative(NDArrayDataset):
        def __getitem__(self, index):
            (x,) = super().__getitem__(index)
            return -x

    assert [x.tolist() for x in DataLoader(Negative(np.arange(3)), 2, **options)] == [[0, -1], [-2]]


def test_stream_is_cut_into_batches():
    sizes = [len(batch) for batch in DataLoader(Count(), 2, prefetch=1)]
    assert sizes == [2, 2, 1]


def test_seeded_sampler_repeats_its_epochs_and_leaves_numpy_alone():
    data = NDArrayDataset(np.arange(10))

    def epochs():
        loader = DataLoader(data, 10, sampler=RandomSampler(10, seed=1))
        return [next(iter(loader))[0].tolist() for _ in range(2)]

    np.random.seed(0)
    first, second = epochs()
    assert np.random.rand() == np.random.RandomState(0).rand()
    assert first != second
    assert epochs() == [first, second]


@given(st.integers(1, 30), st.integers(1, 7), st.data())
def test_position_resumes_with_the_next_batch(n, size, data):
    np.random.seed(1)
    loader = DataLoader(NDArrayDataset(np.arange(n)), size, shuffle=True)
    stop = data.draw(st.integers(1, len(loader)))
    iterator = iter(loader)
    for _ in range(stop):
        next(iterator)
    state = loader.state_dict()
    rest = [b[0].tolist() for b in iterator]
    other = DataLoader(NDArrayDataset(np.arange(n)), size, shuffle=True)
    other.load_state_dict(state)
    assert [b[0].tolist() for b in other] == rest
    assert len(list(other)) == len(loader)  # the pass after that is whole


def test_passes_side_by_side_count_their_own_batches():
    loader = DataLoader(NDArrayDataset(np.arange(10)), 2, shuffle=True)
    old = iter(loader)
    next(old), next(old)
    new = iter(loader)
    next(new), next(old)
    state = loader.state_dict()  # of the pass that began last
    list(old)
    assert loader.state_dict() == state and state["position"] == 1
    other = DataLoader(NDArrayDataset(np.arange(10)), 2)
    other.load_state_dict(state)
    assert [b[0].tolist() for b in other] == [b[0].tolist() for b in new]


class Count(ndl.data.IterableDataset):
    """0 to 4"""

    def __iter__(self):
        return iter(range(5))


@pytest.mark.parametrize("prefetch", [0, 1])
def test_a_stream_resumes_with_the_next_batch(prefetch):
    loader = DataLoader(Count(), 2, prefetch=prefetch)
    next(iter(loader))
    other = DataLoader(Count(), 2, prefetch=prefetch)
    other.load_state_dict(loader.state_dict())
    assert [b.tolist() for b in other] == [[2, 3], [4]]
    assert [b.tolist() for b in other] == [[0, 1], [2, 3], [4]]
    assert other.state_dict()["position"] == 0


def test_a_stream_has_no_sampler():
    with pytest.raises(ValueError, match=r"\[DataLoader\] shuffle and sampler need numbered items"):
        DataLoader(Count(), 2, sampler=[0])


def test_an_error_in_the_background_reaches_the_consumer():
    class Broken(ndl.data.Dataset):
        def __len__(self):
            return 4

        def fetch(self, indices):
            raise OSError("disk on fire")

    with pytest.raises(OSError, match="disk on fire"):
        next(iter(DataLoader(Broken(), 2, prefetch=2)))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"batch_size": 0}, r"\[DataLoader\] expected batch_size >= 1, got 0"),
        ({"prefetch": -1}, r"\[DataLoader\] expected prefetch >= 0"),
        ({"shuffle": True, "sampler": [0]}, r"\[DataLoader\] expected shuffle or a sampler"),
    ],
)
def test_bad_arguments(arguments, text):
    with pytest.raises(ValueError, match=text):
        DataLoader(NDArrayDataset(np.arange(3)), **arguments)


def test_arrays_of_different_lengths():
    with pytest.raises(ValueError, match=r"one length, got lengths \[3, 2\]"):
        NDArrayDataset(np.arange(3), np.arange(2))


def test_items_of_different_shapes():
    with pytest.raises(ValueError, match=r"\[collate\] expected items of one shape"):
        next(iter(DataLoader([np.ones(2), np.ones(3)], 2)))


# Parts of datasets --------------------------------------------------------------------------------


def test_a_generator_draws_the_order_instead_of_numpy():
    def orders():
        generator = ndl.Generator(3)
        loader = DataLoader(NDArrayDataset(np.arange(10)), 10, shuffle=True, generator=generator)
        return [next(iter(loader))[0].tolist() for _ in range(2)]

    np.random.seed(0)
    first, second = orders()
    assert np.random.rand() == np.random.RandomState(0).rand()
    assert sorted(first) == list(range(10)) and first != second and orders() == [first, second]


@pytest.mark.parametrize("options", [{}, {"num_workers": 2}])
def test_random_split_gives_every_item_to_one_part(options):
    data = ndl.data.TensorDataset(ndl.arange(11), ndl.arange(11) * 2)
    for lengths, sizes in (([8, 3], [8, 3]), ([0.5, 0.3, 0.2], [6, 3, 2]), ([11], [11])):
        parts = ndl.data.random_split(data, lengths, generator=ndl.Generator(1))
        assert [len(part) for part in parts] == sizes
        found = []
        for part in parts:
            for x, y in DataLoader(part, 4, **options):
                assert y.tolist() == [2 * i for i in x.tolist()]
                found.extend(x.tolist())
        assert sorted(found) == list(range(11)) != found
        assert [x.item() for x, _ in parts[0]] == found[: sizes[0]]


def test_subsets_of_subsets_and_of_lists():
    letters = ndl.data.Subset(ndl.data.Subset(list("abcdef"), [5, 3, 1]), [2, 0])
    assert [letters[i] for i in range(2)] == ["b", "f"]
    assert next(iter(DataLoader(letters, 2))) == ("b", "f")


def test_a_subset_draws_in_the_consumers_thread_too(tmp_path):
    write_mnist(tmp_path)
    whole = ndl.data.MNIST(tmp_path, transforms=[ndl.data.RandomCrop(2)])

    def sums(dataset):
        np.random.seed(3)
        return [x.numpy().sum() for x, _ in DataLoader(dataset, 8, num_workers=2)]

    assert sums(ndl.data.Subset(whole, range(50))) == sums(whole)


@pytest.mark.parametrize("lengths", [[5, 5], [0.5, 0.6], [12, -1], [5.5, 5.5]])
def test_random_split_refuses(lengths):
    with pytest.raises(ValueError, match=r"\[random_split\] expected lengths that sum to 11, or"):
        ndl.data.random_split(range(11), lengths)


# Damaged files ------------------------------------------------------------------------------------


def load_mnist(folder):
    return ndl.data.MNIST(folder)


def test_missing_file_says_where_the_data_comes_from(tmp_path):
    with pytest.raises(FileNotFoundError, match="gzipped IDX files"):
        load_mnist(tmp_path)
    with pytest.raises(FileNotFoundError, match="dataset-fashion-mnist"):
        ndl.data.FashionMNIST(tmp_path)
    with pytest.raises(FileNotFoundError, match="data_batch_1"):
        ndl.data.CIFAR10Dataset(tmp_path, train=True)
    with pytest.raises(FileNotFoundError, match="Penn Treebank"):
        ndl.data.Corpus(tmp_path)


def test_wrong_magic_number(tmp_path):
    write_mnist(tmp_path)
    write_idx(tmp_path / "train-images-idx3-ubyte.gz", np.zeros((50, 28, 28), np.uint8), 9)
    with pytest.raises(ValueError, match="expected IDX magic number 2051, got 9"):
        load_mnist(tmp_path)


@pytest.mark.parametrize("keep", [0, 3, 20, 200])
def test_short_file(tmp_path, keep):
    write_mnist(tmp_path)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"not a whole gzip file|ends inside its header"):
        load_mnist(tmp_path)


def test_too_few_pixels(tmp_path):
    import gzip
    import struct

    write_mnist(tmp_path)
    contents = struct.pack(">4I", 2051, 50, 28, 28) + bytes(100)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(contents))
    with pytest.raises(ValueError, match=r"expected 39200 bytes of data .* got 100"):
        load_mnist(tmp_path)


def test_bad_label(tmp_path):
    write_mnist(tmp_path)
    write_idx(tmp_path / "train-labels-idx1-ubyte.gz", np.full(50, 11, np.uint8), 2049)
    with pytest.raises(ValueError, match="labels must be 0 to 9, got 11"):
        load_mnist(tmp_path)


def test_numbers_of_images_and_labels_differ(tmp_path):
    write_mnist(tmp_path)
    write_idx(tmp_path / "train-labels-idx1-ubyte.gz", np.zeros(49, np.uint8), 2049)
    with pytest.raises(ValueError, match=r"50 images, .* 49 labels"):
        load_mnist(tmp_path)


def test_cifar10_files_construct_nothing_but_arrays(tmp_path):
    """A file that would run code when unpickled is refused before it can."""
    write_cifar10(tmp_path)
    (tmp_path / "test_batch").write_bytes(b"cos\nsystem\n(S'touch pwned'\ntR.")
    with pytest.raises(ValueError, match=r"wants to construct (os|posix)\.system: refused"):
        ndl.data.CIFAR10Dataset(tmp_path, train=False)


@pytest.mark.parametrize("contents", [b"", b"garbage", b"\x80\x02}q\x00."])
def test_damaged_cifar10(tmp_path, contents):
    write_cifar10(tmp_path)
    (tmp_path / "test_batch").write_bytes(contents)
    with pytest.raises(ValueError, match="is not a CIFAR-10 batch"):
        ndl.data.CIFAR10Dataset(tmp_path, train=False)


# Text and transforms ------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["char", "byte"])
def test_text_windows_are_shifted_by_one(level):
    dataset = ndl.data.TextDataset("hello world", 4, level)
    x, y = dataset[np.array([0, 6])]
    assert dataset.decode(x[0]) == "hell"
    assert dataset.decode(y[0]) == "ello"
    assert dataset.decode(y[1]) == "orld"
    assert len(dataset) == 7
    assert dataset.decode(dataset.encode("low")) == "low"


def test_text_errors():
    with pytest.raises(ValueError, match=r"'z' does not occur in the vocabulary"):
        ndl.data.TextDataset("hello", 2).encode("z")
    with pytest.raises(ValueError, match=r"more than 9 symbols \(block\), got 5"):
        ndl.data.TextDataset("hello", 9)
    with pytest.raises(IndexError, match=r"expected 0 <= index < 3, got 3"):
        ndl.data.TextDataset("hello", 2)[3]


def test_normalize_erase_and_mixup():
    image = np.ones((8, 8, 3), np.float32)
    np.testing.assert_allclose(ndl.data.Normalize([1, 1, 0], [1, 1, 2])(image)[0, 0], [0, 0, 0.5])
    np.random.seed(0)
    erased = ndl.data.RandomErasing(p=1.0)(image)
    assert 0 < (erased == 0).sum() < image.size
    assert (image == 1).all()
    x, y = ndl.data.Mixup(num_classes=3)(np.eye(4, dtype=np.float32), np.array([0, 1, 2, 0]))
    np.testing.assert_allclose(x.sum(1), 1, rtol=1e-6)
    np.testing.assert_allclose(y.sum(1), 1, rtol=1e-6)
