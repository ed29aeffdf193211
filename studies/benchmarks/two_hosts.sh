#!/bin/sh
# Two hosts on one machine: two network namespaces with addresses of their own, an MPI job over both, and the same run
# in one process. Prints how far their weights are apart; exits with 1 where that is more than 1e-12.
#
#     sudo sh studies/benchmarks/two_hosts.sh [python]          default: .venv/bin/python; needs ip, mpi4py and MPICH's mpiexec
#
# Each "host" has its own loopback and one end of a cable; the two see each other only through it. What starts the
# processes over there, ssh elsewhere, is here `ip netns exec`.
set -eu

python=${1:-.venv/bin/python}
case $python in /*) ;; *) python=$PWD/$python ;; esac
root=$(cd "$(dirname "$0")/../.." && pwd)
mpiexec=$(dirname "$python")/mpiexec
[ -x "$mpiexec" ] || mpiexec=$(command -v mpiexec)
work=$(mktemp -d)
one=minitf$$a two=minitf$$b

clean() {
    ip netns del "$one" 2>/dev/null || true
    ip netns del "$two" 2>/dev/null || true
    rm -rf "$work"
}
trap clean EXIT INT TERM

# ---- The hosts ----
ip netns add "$one"
ip netns add "$two"
ip link add "v$$a" netns "$one" type veth peer name "v$$b" netns "$two"
ip -n "$one" address add 10.77.0.1/24 dev "v$$a"
ip -n "$two" address add 10.77.0.2/24 dev "v$$b"
for host in "$one" "$two"; do ip -n "$host" link set lo up; done
ip -n "$one" link set "v$$a" up
ip -n "$two" link set "v$$b" up

# mpiexec calls it as ssh: options, the address, and a command
cat >"$work/remote" <<END
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
case \$1 in 10.77.0.1) host=$one ;; *) host=$two ;; esac
shift
exec ip netns exec "\$host" sh -c "\$*"
END
chmod +x "$work/remote"
printf '10.77.0.1:2\n10.77.0.2:2\n' >"$work/hosts"

# ---- The runs ----
cd "$root"
export OPENBLAS_NUM_THREADS=1
"$python" -m studies.benchmarks.two_hosts flags "$work" >"$work/flags"
# shellcheck disable=SC2046 # one flag a word
"$python" train.py $(cat "$work/flags") --output "$work/one" 2>"$work/one.log"
# shellcheck disable=SC2046
ip netns exec "$one" "$mpiexec" -launcher ssh -launcher-exec "$work/remote" -hostfile "$work/hosts" -n 4 \
    "$python" train.py $(cat "$work/flags") --output "$work/two" --vocabulary "$work/one/vocabulary.model" \
    2>"$work/two.log" || { cat "$work/two.log"; exit 1; }
grep "processes on" "$work/two.log"
grep -q "4 processes on 2 hosts" "$work/two.log"
"$python" -m studies.benchmarks.two_hosts compare "$work"
