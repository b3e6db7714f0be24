"""A remote file system of Beam for tests: shared:// is a local folder.

Paths shared://NAME/... are files below the folder in the variable SHARED_FILES.
"""

import os
import shutil

from apache_beam.io.filesystem import CompressionTypes, FileMetadata
from apache_beam.io.localfilesystem import LocalFileSystem


class SharedFiles(LocalFileSystem):
    """Beam's local file system under paths with a scheme."""

    PREFIX = "shared://"

    @classmethod
    def scheme(cls):
        return "shared"

    def _local(self, path):
        return os.path.join(
            os.environ["SHARED_FILES"], path.removeprefix(self.PREFIX)
        )

    def _shared(self, path):
        root = os.environ["SHARED_FILES"]
        return self.PREFIX + os.path.relpath(path, root)

    def join(self, basepath, *paths):
        return "/".join([basepath.rstrip("/"), *paths])

    def split(self, path):
        return tuple(path.rsplit("/", 1))

    def mkdirs(self, path):
        super().mkdirs(self._local(path))

    def match(self, patterns, limits=None):
        found = super().match(list(map(self._local, patterns)), limits)
        for result in found:
            result.metadata_list = [
                FileMetadata(
                    self._shared(file.path),
                    file.size_in_bytes,
                    file.last_updated_in_seconds,
                )
                for file in result.metadata_list
            ]
        return found

    def create(self, path, *args, **kwargs):
        kwargs["compression_type"] = CompressionTypes.UNCOMPRESSED
        return super().create(self._local(path), **kwargs)

    def open(self, path, *args, **kwargs):
        kwargs["compression_type"] = CompressionTypes.UNCOMPRESSED
        return super().open(self._local(path), **kwargs)

    def rename(self, sources, targets):
        super().rename(
            list(map(self._local, sources)), list(map(self._local, targets))
        )

    def exists(self, path):
        return super().exists(self._local(path))

    def delete(self, paths):
        for path in map(self._local, paths):
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
