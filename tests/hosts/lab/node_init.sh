#!/bin/sh
# PID 1 of a machine of the lab. Runs in mount, PID, UTS, IPC and network namespaces of its own,
# gives itself a root that is a copy-on-write view of this machine's, and then only reaps.
# usage: node_init.sh DIRECTORY NAME PCT
#   DIRECTORY  the machine's own: `root` and `disk` are mounted on, `ready` appears at the end
set -eu
here=$1 name=$2 pct=$3
root=$here/root disk=$here/disk

mount -t tmpfs -o size=4g tmpfs "$disk"
mkdir "$disk/upper" "$disk/work"
mount -t overlay -o "lowerdir=/,upperdir=$disk/upper,workdir=$disk/work" overlay "$root"
mount -t proc proc "$root/proc"
# A new network namespace gets a sysfs of its own; the control groups are this machine's.
mount -t sysfs -o ro sysfs "$root/sys"
mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"

# Devices of its own: a test may make and remove /dev/nvidia* here.
mount -t tmpfs -o mode=755,size=1m tmpfs "$root/dev"
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
mount -t tmpfs tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for pair in stdin:0 stdout:1 stderr:2; do
    ln -s "/proc/self/fd/${pair#*:}" "$root/dev/${pair%:*}"
done
for node in null:3 zero:5 full:7 random:8 urandom:9; do
    mknod -m 666 "$root/dev/${node%:*}" c 1 "${node#*:}"
done
mknod -m 666 "$root/dev/tty" c 5 0

for place in run tmp root; do
    mount -t tmpfs tmpfs "$root/$place"
done
mkdir -m 755 "$root/run/sshd"
mkdir -p "$root/var/lib/lxc" "$root/etc/pve/lxc"
# The upper layer of a container's overlay cannot itself lie on an overlay.
mount -t tmpfs -o size=4g tmpfs "$root/var/lib/lxc"
install -m 755 "$pct" "$root/usr/sbin/pct"
# Keys and configuration, at the same place as outside.
mkdir -p "$root$(dirname "$here")"
mount --bind "$(dirname "$here")" "$root$(dirname "$here")"

hostname "$name"
mkdir "$root/.before"
cd "$root"
pivot_root . .before
umount -l /.before
rmdir /.before
: >"$here/ready"
while :; do
    sleep 3600 &
    wait $!
done
