"""Tensors to a safetensors file and back, written by a thread that does not hold up the one that trains.

What is copied lies in main memory as it will stand in the file, and other threads run on while it is written;
``safetensors.torch.save`` holds Python's lock while it copies everything twice. From a GPU the copies are on their way
when :func:`copied` returns, in the order of what was asked of it before and after.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from bonafide.errors import BonafideError
from bonafide.files import explained, write_whole

_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_MOST_PINNED = 1 << 31
"""Bytes; memory that a GPU can write by itself is not given back before the process ends."""


@dataclass(frozen=True, slots=True)
class Copied:
    """Tensors as they were."""

    header: bytes
    data: list[Tensor]  # in the order of the file
    arrived: torch.cuda.Event | None


def copied(tensors: Mapping[str, Tensor]) -> Copied:
    """Copies in main memory, which training on does not change."""
    ordered = sorted(tensors.items(), key=lambda each: (-each[1].element_size(), each[0]))  # so all are aligned
    described, end = {}, 0
    for name, value in ordered:
        start, end = end, end + value.numel() * value.element_size()
        described[name] = {"dtype": _NAMES[value.dtype], "shape": list(value.shape), "data_offsets": [start, end]}
    header = json.dumps(described, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    length = len(header).to_bytes(8, "little")
    if end > _MOST_PINNED or not any(value.is_cuda for value in tensors.values()):
        return Copied(length + header, [value.detach().to("cpu", copy=True).contiguous() for _, value in ordered], None)
    data = torch.empty(end, dtype=torch.uint8, pin_memory=True)
    for name, value in ordered:
        own = data[slice(*described[name]["data_offsets"])].view(value.dtype).view(value.shape)
        own.copy_(value.detach(), non_blocking=True)
    arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
    arrived.record()
    return Copied(length + header, [data], arrived)


def write_tensors(path: Path, tensors: Copied) -> None:
    """A safetensors file, whole or not at all."""
    if tensors.arrived is not None:
        tensors.arrived.synchronize()
    with write_whole(path) as stream:
        stream.write(tensors.header)
        for each in tensors.data:
            stream.write(each.reshape(-1).view(torch.uint8).numpy().data)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    with explained(path, "read"):
        try:
            return load_file(path)
        except SafetensorError as error:
            raise BonafideError(f"{path} is damaged or cut short ({error}).") from None
