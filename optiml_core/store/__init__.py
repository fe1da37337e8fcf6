"""Results that outlive a process: compiled variants, verdicts, measurements, profiles, trajectories."""
