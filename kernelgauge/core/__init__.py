"""What every room shares: verdicts, settings, paths, arguments, launches, tensors, time limits.

Imports no other room.

- arguments: Arguments, describe_value
- blame: current_place, explain, graded_place, is_graded_file, is_unsolved
- complaint: Complaint
- crash_notes: DEAD_GPU, keep_log, end_worker, end_process, describe_crash
- dtypes: dtype_name, double, rounds, wide
- functions: launcher_globals, launcher_name, underlying
- gpus: used, connect, spread, synchronize
- launch: Launch, LaunchLog, blocks_of
- paths: ROOT, PUZZLES, SOLUTIONS, display_path, load
- settings: Settings, settings
- tensors: flat, map_tensors, nbytes, on_cpu, put, storage_of, tensors
- timeouts: Overrun, TimeLimit, ends_the_run, lift_time_limit, no_time_limit, time_limit
- verdict: NotMeasured, Unsolved, Verdict, Wrong
- versions: TRITON
"""
