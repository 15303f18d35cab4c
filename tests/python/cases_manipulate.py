"""Operations that move elements and those that read and write at indices. Every result is exact."""

from __future__ import annotations

import numpy as np
from opcase import ARITHMETIC, OpCase

RANK_1 = ((0,), (1,), (33,), (3, 33), (2, 5, 7))
RANK_2 = ((0, 3), (1, 1), (3, 33), (31, 2))
RANK_3 = ((2, 3, 4), (1, 33, 5), (0, 3, 2), (31, 2, 33))
RANK_4 = ((2, 3, 4, 5), (1, 33, 2, 3), (2, 0, 3, 2))


def moves(name, reference, **options):
    return OpCase(name, reference, ARITHMETIC, elementwise=False, ulps=0.0, **options)


def view(name, reference, **options):
    return moves(name, reference, has_out=False, **options)


def transposed(name, axes, shapes):
    return moves(name, lambda x: np.transpose(x, axes), shapes=shapes, layout_shape=(5, 6, 7, 2)[: len(axes)])


def pad(x, pad_width, mode, constant_values=None):
    extra = {} if constant_values is None else {"constant_values": constant_values}
    return np.pad(x, pad_width, mode, **extra)


CASES = [
    moves("repeat", lambda x, repeats: np.repeat(x, repeats), kwargs={"repeats": 3}),
    moves("repeat", np.repeat, kwargs={"repeats": 2, "axis": -1}, shapes=RANK_1),
    moves("tile", lambda x, repetitions: np.tile(x, repetitions), kwargs={"repetitions": (2, 1, 3)}),
    moves("roll", np.roll, kwargs={"shift": 5}),
    moves("roll", np.roll, kwargs={"shift": (2, -3), "axis": (0, 1)}, shapes=RANK_2),
    moves("pad", pad, kwargs={"pad_width": 2, "mode": "constant", "constant_values": 1}, shapes=RANK_1),
    moves("pad", pad, kwargs={"pad_width": (3, 1), "mode": "edge"}, shapes=RANK_1[1:]),
    moves("pad", pad, kwargs={"pad_width": (40, 2), "mode": "reflect"}, shapes=RANK_1[1:]),
    moves("reshape_copy", lambda x, new_shape: x.reshape(new_shape), kwargs={"new_shape": (-1,)}),
    transposed("transpose_3d_021", (1, 0, 2), RANK_3),
    transposed("transpose_3d_012", (0, 2, 1), RANK_3),
    transposed("transpose_4d_0213", (0, 2, 1, 3), RANK_4),
    transposed("transpose_4d_0132", (0, 1, 3, 2), RANK_4),
    view("contiguous", lambda x: x),
    view("flip", np.flip),
    view("flip", np.flip, kwargs={"axis": -1}, shapes=RANK_1),
    view("ravel", np.ravel),
    view("flatten", np.ravel),
    view("reshape", lambda x, shape: x.reshape(shape), kwargs={"shape": (1, -1)}),
    view("expand_dims", np.expand_dims, kwargs={"axis": 0}),
    view("squeeze", np.squeeze),
    view("permute_dims", np.transpose, kwargs={"axes": (1, 0)}, shapes=RANK_2, aliases=("permute",)),
    view("moveaxis", np.moveaxis, kwargs={"source": 0, "destination": -1}, shapes=RANK_1),
    view("swapaxes", np.swapaxes, kwargs={"axis1": 0, "axis2": -1}, shapes=RANK_1),
    view("broadcast_to", np.broadcast_to, kwargs={"shape": (2, 3, 33, 18)}, shapes=((33, 18), (33, 1), (), (18,))),
    view("expand", lambda x, shape: np.broadcast_to(x, (2, *x.shape)), kwargs={"shape": (2, -1, -1)}, shapes=RANK_2),
    view("concat_axis0", lambda a, b: np.concatenate([a, b]), arity=2, shapes=RANK_1),
    view(
        "repeat_interleave_axis1",
        lambda x, repeats: np.repeat(x, repeats, 1),
        kwargs={"repeats": 3},
        shapes=RANK_3,
        layout_shape=(3, 5, 4),
    ),
]

DEDICATED = {
    "concat": "test_manipulate.py::test_concat",
    "concatenate": "test_manipulate.py::test_concat",
    "stack": "test_manipulate.py::test_stack",
    "split": "test_views.py::test_split_and_unstack",
    "unstack": "test_views.py::test_split_and_unstack",
    "broadcast_arrays": "test_views.py::test_broadcasting_follows_numpy",
    "take": "test_take.py::test_take",
    "take_along_axis": "test_take.py::test_take_along_axis_and_scatter",
    "gather": "test_take.py::test_take_along_axis_and_scatter",
    "put_along_axis": "test_indexing.py::test_last_of_equal_indices_stays",
    "scatter": "test_take.py::test_take_along_axis_and_scatter",
    "nonzero": "test_take.py::test_nonzero_argwhere_compress",
    "argwhere": "test_take.py::test_nonzero_argwhere_compress",
    "compress": "test_take.py::test_nonzero_argwhere_compress",
}
