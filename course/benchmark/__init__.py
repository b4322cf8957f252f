"""The solutions timed beside what a user would take instead of them.

`python -m course.benchmark` measures and saves tables, `python -m course.benchmark.record` writes
the record of a GPU (reference/H200.md) from them, `timing.time_peers` times peers beside a race.
For the files in reference/peers:

- peers.Benchmark, Peer, COMPILED: what to measure
- libraries.CUBLASLT, liger, sdpa, flex, attention_peers: peers that several chapters share
- workloads: inputs, counts of work and benchmarks that several chapters share
"""
