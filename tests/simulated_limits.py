"""Limits of a GPU for tests that have none."""

from kernelgauge.speed.roofline import Limits

MB = 10**6
H200 = Limits(
    name="NVIDIA H200",
    uuid="GPU-0",
    torch="2.13.0",
    multiprocessors=132,
    l2_bytes=60 * MB,
    copy=4.28e12,
    read=4.2e12,
    matmul={
        "float16": 700e12,
        "bfloat16": 700e12,
        "float32": 50e12,
        "tf32": 350e12,
        "int8": 1400e12,
        "float8_e4m3fn": 1288e12,
    },
)
