"""Honest paired timing on one GPU: a subject against its reference, and what the GPU allows.

For other rooms:

- measure.race, result.RaceResult: the comparison, and what it found
- gpu.take, shared, exclusive, is_busy, measured_limits: this process's GPU
- gpu_lock.select_gpu, all_gpus, hold; roofline.Limits, measure; timer.CudaTimer;
  buffers.Buffers, snapshot: the parts, for course.benchmark
- selftest.failures: private names of torch that are missing
"""
