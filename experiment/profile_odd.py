import sys
from pathlib import Path
import torch, triton
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
import run as E
a, w = E.rnd(4003, 4007), E.rnd(4001, 4007)
bias = torch.zeros(4001, dtype=torch.bfloat16, device="cuda")
linear = E.today("07_matmul", "linear", "linear")
flush = torch.empty(2**28 // 4, dtype=torch.int32, device="cuda")
pa, pw = E.realigned(a, E.R.realign_all, 4, 1024, 8), E.realigned(w, E.R.realign_all, 4, 1024, 8)
wa, ww = torch.zeros(4003, 4032, dtype=a.dtype, device="cuda")[:, :4007], torch.zeros(4001, 4032, dtype=a.dtype, device="cuda")[:, :4007]
wa.copy_(a), ww.copy_(w)
cases = {"solution": lambda: linear(a, w, bias, None), "product, pitch of 16 bytes": E.product(pa, pw.T, s=4), "product, pitch of 128 bytes": E.product(wa, ww.T, s=4),
         "copies of pitch 16, product": lambda: E.product(E.realigned(a, E.R.realign_all, 4, 1024, 8), E.realigned(w, E.R.realign_all, 4, 1024, 8).T, s=4)()}
from kernelgauge.speed.timer import CudaTimer
timer = CudaTimer()
for name, call in cases.items():
    for _ in range(5):
        ms = timer.time(call)[0]
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(5):
            flush.zero_(); torch.cuda._sleep(1_000_000); call()
        torch.cuda.synchronize()
    print(name, f"{ms:.4f} ms by the timer")
    for event in found.key_averages():
        if "sleep" not in event.key and "spin" not in event.key:
            print(f"    {event.device_time / 1e3:.4f} ms  {event.count}x {event.key[:60]}")
