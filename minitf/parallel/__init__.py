"""Collective communication between the processes of a job, for data-parallel training (section 5.2).

A job is started by `--devices` (launch.py) or by mpiexec.  Each of its processes is a rank, and `join` returns its
group; `minitf/training/data_parallel.py` trains on top of that.  A run of one process imports nothing of this package.

    group.py          barrier, all-gather, broadcast and all-reduce: the interface `Group`; sums of the ranks' buffers
    shared_memory.py  ranks on one host, through shared memory
    mpi.py            ranks on any number of hosts, through mpi4py
    nccl.py           GPUs, through CuPy and NCCL, with one of the two above for everything but gradients
    buckets.py        gradient buckets, all-reduced during the backward pass
    join.py           how a process joins its group and leaves it
    launch.py         starts the ranks of `--devices` and waits for them
    heartbeat.py      failure detection
"""
