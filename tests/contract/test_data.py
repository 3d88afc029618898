"""The course's data: datasets, loader, transforms, corpus; random draws in the course's order."""

from __future__ import annotations

import numpy as np
import pytest

import needle as ndl
from tests.data.files import write_cifar10, write_mnist


@pytest.fixture
def mnist(tmp_path):
    pixels, labels = write_mnist(tmp_path)
    dataset = ndl.data.MNISTDataset(
        str(tmp_path / "train-images-idx3-ubyte.gz"), str(tmp_path / "train-labels-idx1-ubyte.gz")
    )
    return dataset, pixels, labels


def test_ndarray_dataset_gives_tuples_of_rows():
    a, b = np.arange(12).reshape(6, 2), np.arange(6)
    dataset = ndl.data.NDArrayDataset(a, b)
    item = dataset[2]
    assert len(dataset) == 6
    assert isinstance(item, tuple)
    np.testing.assert_array_equal(item[0], a[2])
    assert item[1] == 2


def test_transforms_apply_in_list_order():
    dataset = ndl.data.Dataset([lambda x: x + 1, lambda x: x * 10])
    assert dataset.apply_transforms(1) == 20


def test_loader_batches_are_array_splits_and_none_is_dropped():
    dataset = ndl.data.NDArrayDataset(np.arange(10))
    batches = [batch[0].numpy() for batch in ndl.data.DataLoader(dataset, batch_size=4)]
    expected = np.array_split(np.arange(10), range(4, 10, 4))
    assert [len(b) for b in batches] == [4, 4, 2]
    for got, want in zip(batches, expected, strict=True):
        np.testing.assert_array_equal(got, want)


def test_shuffle_draws_one_permutation_per_pass_and_none_before():
    dataset = ndl.data.NDArrayDataset(np.arange(10))
    np.random.seed(3)
    loader = ndl.data.DataLoader(dataset, batch_size=4, shuffle=True)
    orders = [np.concatenate([b[0].numpy() for b in loader]) for _ in range(2)]
    after = np.random.rand()
    np.random.seed(3)
    np.testing.assert_array_equal(orders[0], np.random.permutation(10))
    np.testing.assert_array_equal(orders[1], np.random.permutation(10))
    assert after == np.random.rand()


def test_loader_iterator_ends_and_starts_again():
    loader = ndl.data.DataLoader(ndl.data.NDArrayDataset(np.arange(3)), batch_size=2)
    iterator = iter(loader)
    assert isinstance(next(iterator)[0], ndl.Tensor)
    next(iterator)
    with pytest.raises(StopIteration):
        next(iterator)
    assert len(list(loader)) == 2


def test_random_flip_draws_once_and_flips_axis_1():
    image = np.arange(12.0).reshape(2, 3, 2)
    np.random.seed(0)
    draws = np.random.rand(20)
    np.random.seed(0)
    flip = ndl.data.RandomFlipHorizontal(p=0.5)
    for draw in draws:
        expected = image[:, ::-1] if draw < 0.5 else image
        np.testing.assert_array_equal(flip(image), expected)


def test_random_crop_draws_two_shifts_and_moves_axis_0_by_the_first():
    image = np.random.default_rng(0).random((6, 5, 1))
    np.random.seed(1)
    shifts = [np.random.randint(low=-3, high=4, size=2) for _ in range(10)]
    np.random.seed(1)
    crop = ndl.data.RandomCrop(padding=3)
    padded = np.pad(image, ((3, 3), (3, 3), (0, 0)))
    for x, y in shifts:
        np.testing.assert_array_equal(crop(image), padded[3 + x : 9 + x, 3 + y : 8 + y])


def test_mnist_items_slices_and_batches(mnist):
    dataset, pixels, labels = mnist
    image, label = dataset[7]
    assert len(dataset) == 50
    assert image.dtype == np.float32
    assert label == labels[7]
    assert dataset.labels.dtype == np.uint8
    np.testing.assert_allclose(image.reshape(28, 28), pixels[7] / 255, rtol=1e-6)
    images, some = dataset[10:14]
    (batch, _), *_ = ndl.data.DataLoader(ndl.data.NDArrayDataset(*dataset[:]), 4)
    assert images.shape == batch.shape == (4, 28, 28, 1)
    np.testing.assert_array_equal(some, labels[10:14])


def test_mnist_transforms_see_single_images_in_order(mnist):
    dataset, _, _ = mnist
    shapes = []

    def record(x):
        shapes.append(x.shape)
        return x

    dataset.transforms = [record]
    dataset[np.array([3, 4, 5])]
    assert shapes == [(28, 28, 1)] * 3


@pytest.mark.parametrize("train", [True, False])
def test_cifar10(tmp_path, train):
    write_cifar10(tmp_path)
    dataset = ndl.data.CIFAR10Dataset(str(tmp_path), train=train, p=0.5)
    assert len(dataset) == (50 if train else 10)
    assert dataset.X.shape[1:] == (3, 32, 32)
    assert dataset.X.max() <= 1
    item = dataset[3]
    assert isinstance(item, tuple)
    assert item[0].shape == (3, 32, 32)
    assert item[1] == dataset.y[3]


def test_corpus_ids_by_first_appearance_and_max_lines(tmp_path):
    (tmp_path / "train.txt").write_text("the cat sat\nthe dog ran\nlost line\n")
    (tmp_path / "test.txt").write_text("a dog sat\nthe end\nlost line\n")
    corpus = ndl.data.Corpus(str(tmp_path), max_lines=2)
    words = ["the", "cat", "sat", "<eos>", "dog", "ran", "a", "end"]
    assert corpus.dictionary.idx2word == words
    assert corpus.train == [0, 1, 2, 3, 0, 4, 5, 3]
    assert corpus.test == [6, 4, 2, 3, 0, 7, 3]
    assert len(corpus.dictionary) == 8
    assert corpus.dictionary.word2idx == {word: i for i, word in enumerate(words)}
    assert corpus.dictionary.add_word("cat") == 1


def test_batchify_is_column_major_and_trimmed():
    batches = ndl.data.batchify(list(range(11)), 3, device=ndl.cpu(), dtype="float32")
    assert isinstance(batches, np.ndarray)
    np.testing.assert_array_equal(batches, [[0, 3, 6], [1, 4, 7], [2, 5, 8]])


@pytest.mark.parametrize(("i", "rows"), [(0, 2), (3, 1)])
def test_get_batch(i, rows):
    device = ndl.cpu()
    batches = ndl.data.batchify(list(range(10)), 2, device=device, dtype="float32")
    x, y = ndl.data.get_batch(batches, i, bptt=2, device=device, dtype="float32")
    assert x.shape == (rows, 2)
    assert y.shape == (rows * 2,)
    assert x.device == device
    assert x.dtype == "float32"
    assert isinstance(x.cached_data, ndl.NDArray)
    np.testing.assert_array_equal(x.numpy(), batches[i : i + rows])
    np.testing.assert_array_equal(y.numpy(), batches[i + 1 : i + 1 + rows].reshape(-1))
