"""CRC-32C inside kernels: by the instruction that the processor has for it, or by tables.

A library has its own, and is as fast on a megabyte; called once for every record of a hundred bytes
it would cost more than all else that is done to the record. The instruction takes eight bytes at a
time. Where there is none, or Numba was told to compile for another processor than this one, eight
tables do the same more slowly.
"""

import platform

import numpy as np
from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba import config, njit, types
from numba.extending import intrinsic

from lakelog.records.kernels.primitives import word_at

__all__ = [
    "checksum",
    "checksum_begin",
    "checksum_by",
    "checksum_end",
    "checksum_word",
    "steps_by",
    "turned",
]

_POLYNOMIAL = 0x82F63B78
_U = types.uint64
_ONES = 0xFFFFFFFF


def _instruction():
    """Return the names of the instruction for one byte and for eight, and the width of its state.

    None: it is not known that there is one.
    """
    if config.CPU_NAME or config.CPU_FEATURES:
        return None
    features = binding.get_host_cpu_features()
    machine = platform.machine()
    if machine in ("x86_64", "AMD64") and features.get("sse4.2"):
        return "llvm.x86.sse42.crc32.32.8", "llvm.x86.sse42.crc32.64.64", 8, 64
    if machine in ("aarch64", "arm64") and features.get("crc"):
        return "llvm.aarch64.crc32cb", "llvm.aarch64.crc32cx", 32, 32
    return None


def _tables():
    tables = np.zeros((8, 256), np.uint64)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        tables[0, byte] = crc
    for number in range(1, 8):
        before = tables[number - 1]
        tables[number] = before >> np.uint64(8) ^ tables[0][(before & np.uint64(0xFF)).astype(int)]
    return tables


_TABLES = _tables()


@intrinsic
def turned(context, word):  # noqa: ARG001
    """The eight bytes of a number in the other order: as a big-endian one has them."""

    def generate(context, builder, signature, args):  # noqa: ARG001
        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)])
        call = builder.module.declare_intrinsic("llvm.bswap.i64", (), kind)
        return builder.call(call, [args[0]])

    return types.uint64(types.uint64), generate


def _by_instruction(name, data_bits, state_bits):
    @intrinsic
    def step(context, crc, data):  # noqa: ARG001
        def generate(context, builder, signature, args):  # noqa: ARG001
            state, wide = ir.IntType(state_bits), ir.IntType(64)
            kind = ir.IntType(data_bits)
            crc = args[0] if state_bits == 64 else builder.trunc(args[0], state)
            data = args[1] if data_bits == 64 else builder.trunc(args[1], kind)
            call = builder.module.declare_intrinsic(name, (), ir.FunctionType(state, [state, kind]))
            found = builder.call(call, [crc, data])
            return found if state_bits == 64 else builder.zext(found, wide)

        return types.uint64(types.uint64, types.uint64), generate

    return step


@njit
def _byte_by_table(crc, data):
    return crc >> _U(8) ^ _TABLES[0, types.int64((crc ^ data) & _U(0xFF))]


@njit
def _word_by_tables(crc, data):
    x = crc ^ data
    out = _U(0)
    for i in range(8):
        out ^= _TABLES[7 - i, types.int64(x >> _U(8 * i) & _U(0xFF))]
    return out


def steps_by(instruction):
    """Return what takes a byte, and what takes eight, into a checksum."""
    if instruction is None:
        return _byte_by_table, _word_by_tables
    for_byte, for_word, byte_bits, word_state_bits = instruction
    return _by_instruction(for_byte, byte_bits, 32), _by_instruction(for_word, 64, word_state_bits)


def checksum_by(instruction):
    """Return the function ``checksum`` made with an instruction, or with tables."""
    take_byte, take_word = steps_by(instruction)

    @njit(forceinline=True)
    def checksum(crc, b, p, end):
        """Take the bytes ``[p, end)`` into a checksum that was begun."""
        while end - p >= 8:
            crc = take_word(crc, word_at(b, p))
            p += 8
        while p < end:
            crc = take_byte(crc, _U(b[p]))
            p += 1
        return crc

    return checksum


checksum = checksum_by(_instruction())
checksum_word = steps_by(_instruction())[1]
"""Takes eight bytes, as a number whose lowest is the first, into a checksum that was begun."""


@njit(forceinline=True)
def checksum_begin():
    return _U(_ONES)


@njit(forceinline=True)
def checksum_end(crc):
    """The checksum as a number that can be compared and written."""
    return types.int64(crc ^ _U(_ONES))
