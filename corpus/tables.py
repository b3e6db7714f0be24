"""Read the text column of parquet files.

pyarrow is optional, as most corpora are dumps or text, and it is imported only
when there is a parquet file.
"""

import os
import tempfile
from collections.abc import Iterator

from base import file_system, packages

from corpus.items import Unusable
from corpus.sources import Blocks

# Rows decoded at once.
_ROWS = 256


def require_pyarrow(path: str):
    """Return the module pyarrow.parquet, or tell how to install it."""
    return packages.load(
        "pyarrow.parquet",
        f"the parquet file {path}",
        "pyarrow",
        "requirements-parquet.txt",
    )


def read_column(
    path: str, column: str, blocks: Blocks
) -> Iterator[tuple[str | None, int]]:
    """Yield (text or None for a null, bytes of the file for this row).

    One row group at most is in memory. `blocks`, the opened file, is read only
    where it is compressed as a whole or remote. After the rows before its
    damage a file is `Unusable`, as one without the column of text is.
    """
    parquet = require_pyarrow(path)
    import pyarrow
    from pyarrow import types

    with tempfile.TemporaryFile() as plain:
        if blocks.compression or file_system.is_remote(path):
            # Parquet is read from its end, which a compressed file cannot,
            # and by a kind of file object that remote files are not.
            plain.writelines(blocks)
            if blocks.damage:
                raise Unusable("unreadable_file", blocks.damage)
            source = plain
        else:
            source = file_system.open_for_reading(path)
        try:
            with parquet.ParquetFile(source) as file:
                schema = file.schema_arrow
                if column not in schema.names:
                    raise Unusable(
                        "unreadable_file",
                        f"has no column {column!r}, but "
                        f"{', '.join(schema.names)}; name one by --text_column",
                    )
                found = schema.field(column).type
                if types.is_dictionary(found):
                    found = found.value_type
                if not (
                    types.is_string(found)
                    or types.is_large_string(found)
                    or types.is_string_view(found)
                ):
                    raise Unusable(
                        "unreadable_file",
                        f"has values of type {found} in column {column!r}; "
                        "wanted text",
                    )
                num_rows = max(1, file.metadata.num_rows)
                per_row = os.fstat(source.fileno()).st_size / num_rows
                done = 0.0
                for batch in file.iter_batches(_ROWS, columns=[column]):
                    for text in batch.column(0).to_pylist():
                        done += per_row
                        yield text, int(done)
                        done -= int(done)
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            words = " ".join(str(error).split())
            raise Unusable(
                "unreadable_file", f"is a damaged parquet file ({words})"
            ) from error
        finally:
            source.close()
