"""Load a learner's file, run it once, and see that it does its own work.

Uses core, memory, compilation.

- autotuning: ConfigSweep, install
- canaries: MAX_COPIED_BYTES
- gradients: Differentiable
- guard: one_stream
- guarded_call: GuardedCall, Outcome, name_of
- launcher_source: followed, meta_parameters
- late_rank: Lateness, has_meetings, names_by_rank
- loader: load_mistakes, load_reference, load_subject
- tamper: untouched
- trial: Trial

For use in this room: audit, launch_recorder, unwritten and the rest of canaries and guard.
"""
