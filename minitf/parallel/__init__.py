"""Data parallel: several processes train as one (section 5.2: "one machine with 8 NVIDIA P100 GPUs").

The sentences of an update are shared out among the processes.  Each computes the gradient of its own, the gradients
are added up while the backward pass still runs, and every process makes the same update of the same weights.  Who
computes what changes nothing but the order of sums: the batches, the dropout masks and the number of tokens that the
loss is divided by are those of the whole update.

    group.py      what processes can do together: `Group`; one alone
    shared.py     several on one host, through its memory
    mpi.py        any number on any hosts, through mpi4py
    nccl.py       GPUs, through CuPy and NCCL, with one of the two above beside it
    gradients.py  the flat buffer and its buckets
    shares.py     who computes which rows of which batch
    update.py     what the processes of a run tell each other
    launch.py     starts the processes of this host and watches over them
    watch.py      signs of life; how a job ends when one dies
"""
