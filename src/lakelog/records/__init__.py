"""Kafka record batches: the unit of the wire, the journal and the segment.

header       the 61 bytes that place and describe a batch; the frames of a run
batch        the plain codec, batch <-> records, and the judge of all others
compression  the five codecs, each behind a cap
scanning     looking for times and keys, without making records
partitioning which partition a key goes to, as Kafka's clients choose it
columns      the compiled codec, runs of batches <-> Arrow; imported only when asked for,
             because it brings NumPy, Arrow and LLVM
"""

from lakelog.records.batch import (
    Batch,
    NewBatch,
    decode_batch,
    decode_batches,
    decode_records,
    encode_batch,
)
from lakelog.records.compression import (
    DECOMPRESSED_BYTES_MAX,
    RATIOS_MAX,
    Codec,
    compress,
    compressor,
    decompress,
)
from lakelog.records.header import (
    ATTRIBUTES,
    BATCH_BYTES_MAX,
    CODEC_MASK,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    I32_MAX,
    I64_MAX,
    I64_MIN,
    LENGTH_END,
    MAGIC,
    MAGIC_AT,
    OFFSET_MAX,
    RECORD_BYTES_MIN,
    START_BYTES,
    BatchHeader,
    Frame,
    check_crc,
    check_fits,
    decode_header,
    frames,
    placed_start,
    rebase,
)
from lakelog.records.partitioning import hash_keys, sort_rows
from lakelog.records.scanning import FoundRecord, Scan, finish, first_not_older, without_keys
from lakelog.records.varint import (
    decode_field,
    decode_headers,
    decode_varint,
    decode_varlong,
    encode_field,
    encode_headers,
    encode_varint,
)

__all__ = [
    "ATTRIBUTES",
    "BATCH_BYTES_MAX",
    "CODEC_MASK",
    "CRC_START",
    "DECOMPRESSED_BYTES_MAX",
    "HEADER",
    "HEADER_BYTES",
    "I32_MAX",
    "I64_MAX",
    "I64_MIN",
    "LENGTH_END",
    "MAGIC",
    "MAGIC_AT",
    "OFFSET_MAX",
    "RATIOS_MAX",
    "RECORD_BYTES_MIN",
    "START_BYTES",
    "Batch",
    "BatchHeader",
    "Codec",
    "FoundRecord",
    "Frame",
    "NewBatch",
    "Scan",
    "check_crc",
    "check_fits",
    "compress",
    "compressor",
    "decode_batch",
    "decode_batches",
    "decode_field",
    "decode_header",
    "decode_headers",
    "decode_records",
    "decode_varint",
    "decode_varlong",
    "decompress",
    "encode_batch",
    "encode_field",
    "encode_headers",
    "encode_varint",
    "finish",
    "first_not_older",
    "frames",
    "hash_keys",
    "placed_start",
    "rebase",
    "sort_rows",
    "without_keys",
]
