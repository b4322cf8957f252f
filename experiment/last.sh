#!/bin/bash
# Both levels of the changed puzzles, a profile, their benchmarks, and what is left for the slow versions.
began=$(date +%s)
tests=""
for n in 07_matmul:linear 07_matmul:batched 09_scheduling:split_k 09_scheduling:stream_k 09_scheduling:triangular 12_transformer:fused_linear_cross_entropy 12_transformer:layer_norm_linear 11_quantization:int8_matmul 11_quantization:fp8_matmul 17_persistent:persistent_attention 03_reductions:row_sum 03_reductions:row_argmax 14_inference:flash_decoding 18_distributed:average_gradients 18_distributed:all_gather_matmul; do
  tests="$tests puzzles/${n%%:*}/test_${n##*:}.py puzzles/${n%%:*}/production/test_${n##*:}.py"
done
timeout 150 python3 -m pytest $tests --solutions -n 12 -q > $OUT/tests.log 2>&1
tail -45 $OUT/tests.log
echo "tests: $(( $(date +%s) - began )) s"
timeout 40 python3 experiment/profile_odd.py > $OUT/profile.log 2>&1; tail -40 $OUT/profile.log
echo "profile: $(( $(date +%s) - began )) s"
mkdir -p $OUT/bench
timeout 120 python3 -m course.benchmark --out /tmp/bench --seconds 0.08 --puzzle linear --puzzle batched --puzzle persistent_attention --puzzle row_sum --puzzle row_argmax --puzzle triangular --puzzle int8_matmul --puzzle fp8_matmul --puzzle layer_norm_linear --puzzle fused_linear_cross_entropy --puzzle 09_scheduling/stream_k --puzzle 09_scheduling/split_k > $OUT/bench.log 2>&1
cp /tmp/bench/peers.json $OUT/bench/; grep solution $OUT/bench.log
echo "bench: $(( $(date +%s) - began )) s"
left=$(( 350 - $(date +%s) + began ))
[ $left -gt 20 ] && timeout $left python3 -m pytest --proof tests/test_slow.py -n 12 -q > $OUT/slow.log 2>&1
grep -E "passed|failed|^FAILED" $OUT/slow.log | tail -40
echo "all: $(( $(date +%s) - began )) s"
