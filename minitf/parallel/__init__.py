"""Collective communication between the processes of a job, for data-parallel training (section 5.2)."""
