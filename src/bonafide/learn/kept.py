"""Which solutions of its store a run trains on: ``kept.parquet`` in its folder.

A row for each example that is used, in the order in which ``selections.jsonl`` counts them: its id, how many solutions
the store holds of it, and the places among them of those that training kept; null where it kept all. Like a shard, the
file has a checksum of itself in its footer. It depends on the recipe and the data alone, so that a run that goes on
writes the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from bonafide.errors import BonafideError
from bonafide.files import explained, write_whole
from bonafide.sealed import BLANK, FOOTER_KEY, SealingStream, is_sealed_parquet

KEPT = "kept.parquet"
Integers = npt.NDArray[np.int64]
Note = Callable[[str, int, Integers | None], None]
"""Is told an example's id, how many solutions the store holds, and the places of the kept ones; None: all."""
_SCHEMA = pa.schema(
    [
        pa.field("example", pa.string(), nullable=False),
        pa.field("stored", pa.int64(), nullable=False),
        pa.field("places", pa.list_(pa.int64())),
    ]
)
_ENCODINGS = {"example": "PLAIN", "stored": "PLAIN", "places.list.element": "DELTA_BINARY_PACKED"}
_GROUP_PLACES, _GROUP_EXAMPLES = 250_000, 10_000


@contextmanager
def writing_kept(path: Path) -> Iterator[Note]:
    """Write the file, whole or not at all, of what is noted within this."""
    held: list[tuple[str, int, Integers | None]] = []
    waiting = 0
    with write_whole(path) as stream:
        sealing = SealingStream(stream)
        with pq.ParquetWriter(
            sealing, _SCHEMA, compression="zstd", use_dictionary=False, column_encoding=_ENCODINGS
        ) as writer:

            def flush() -> None:
                nonlocal waiting
                columns = [pa.array(column, field.type) for column, field in zip(zip(*held), _SCHEMA)]  # noqa: B905
                writer.write_table(pa.Table.from_arrays(columns, schema=_SCHEMA))
                held.clear()
                waiting = 0

            def note(name: str, stored: int, places: Integers | None) -> None:
                nonlocal waiting
                held.append((name, stored, places))
                waiting += 0 if places is None else len(places)
                if waiting >= _GROUP_PLACES or len(held) >= _GROUP_EXAMPLES:
                    flush()

            yield note
            if held:
                flush()
            writer.add_key_value_metadata({FOOTER_KEY: BLANK})
            sealing.hold()
        sealing.seal()


class KeptFile:
    """A file that was written; ``count`` is of how many examples."""

    def __init__(self, path: Path) -> None:
        with explained(path, "read"):
            if not is_sealed_parquet(path):
                raise BonafideError(
                    f"{path} is damaged: it does not have the checksum that was written with it. Bring back a copy of "
                    "it, or train again with --resume, which writes it anew."
                )
            self._file = pq.ParquetFile(path)
        self.count = int(self._file.metadata.num_rows)

    def __iter__(self) -> Iterator[tuple[str, int, Integers | None]]:
        """What was noted, in its order; one row group is in memory at a time."""
        for group in range(self._file.num_row_groups):
            table = self._file.read_row_group(group, use_threads=False)
            names, stored = table.column("example").to_pylist(), table.column("stored").to_pylist()
            places = table.column("places").combine_chunks()
            values, offsets = places.values.to_numpy(), places.offsets.to_pylist()
            for row, whole in enumerate(places.is_null().to_pylist()):
                yield names[row], stored[row], None if whole else values[offsets[row] : offsets[row + 1]]
