"""A FUSE file system over a directory that stalls while a file exists: stalling_fs.py ROOT MOUNT STALL.

Like a network file system without its server: every operation waits, and STALL.met says that one does. It cannot make
device nodes, so no sockets.
"""

import errno
import os
import sys
import time

try:
    import fusepy as fuse  # Debian's name
except ImportError:
    import fuse


class StallingFs(fuse.Operations):
    def __init__(self, root, stall):
        self.root = root
        self.stall = stall

    def __call__(self, op, *args):
        while os.path.exists(self.stall):
            open(self.stall + ".met", "w").close()
            time.sleep(0.02)
        return super().__call__(op, *args)

    def real(self, path):
        return self.root + path

    def access(self, path, mode):
        if not os.access(self.real(path), mode):
            raise fuse.FuseOSError(errno.EACCES)

    def chmod(self, path, mode):
        return os.chmod(self.real(path), mode)

    def getattr(self, path, fh=None):
        st = os.lstat(self.real(path))
        return {name: getattr(st, name) for name in
                ("st_atime", "st_ctime", "st_gid", "st_mode", "st_mtime", "st_nlink", "st_size", "st_uid")}

    def readdir(self, path, fh):
        return [".", "..", *os.listdir(self.real(path))]

    def readlink(self, path):
        return os.readlink(self.real(path))

    def mkdir(self, path, mode):
        return os.mkdir(self.real(path), mode)

    def mknod(self, path, mode, dev):
        raise fuse.FuseOSError(errno.ENOSYS)

    def rmdir(self, path):
        return os.rmdir(self.real(path))

    def unlink(self, path):
        return os.unlink(self.real(path))

    def symlink(self, name, target):
        return os.symlink(target, self.real(name))

    def rename(self, old, new):
        return os.rename(self.real(old), self.real(new))

    def open(self, path, flags):
        return os.open(self.real(path), flags & ~os.O_APPEND)

    def create(self, path, mode, fi=None):
        return os.open(self.real(path), os.O_RDWR | os.O_CREAT, mode)

    def read(self, path, length, offset, fh):
        return os.pread(fh, length, offset)

    def write(self, path, data, offset, fh):
        return os.pwrite(fh, data, offset)

    def truncate(self, path, length, fh=None):
        os.truncate(self.real(path), length)

    def release(self, path, fh):
        return os.close(fh)


if __name__ == "__main__":
    fuse.FUSE(StallingFs(sys.argv[1], sys.argv[3]), sys.argv[2], foreground=True, nothreads=False)
