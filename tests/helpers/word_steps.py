"""Steps of a small job: words, and how often they occur."""

import collections
import zlib

from base.errors import InputError, UserError
from base.jobs.steps import Steps


class WordSteps(Steps):
    """Counts the words of texts; two buckets make a file."""

    name = "count"
    num_buckets = 4
    num_files = 2

    def __init__(self, fails_in: int = -1):
        self.fails_in = fails_in

    def bucket(self, word):
        return zlib.crc32(word.encode()) % self.num_buckets

    def size_of(self, chunk):
        return len(chunk)

    def map(self, chunk):
        pairs = [(self.bucket(word), word.encode()) for word in chunk.split()]
        return pairs, {"counts": {"texts": 1}}

    def check(self, total):
        if not total["counts"]["texts"]:
            raise InputError("no text")

    def reduce(self, bucket, values, file):
        if bucket == self.fails_in:
            raise UserError("no more")
        counts = collections.Counter(values)
        for word in sorted(counts):
            file.write(b"%s %d\n" % (word, counts[word]))
        return {"bounds": [0, file.tell()], "counts": {"words": len(counts)}}
