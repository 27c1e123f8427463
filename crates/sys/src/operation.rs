//! The operations haul requests from the kernel, named as strace prints them.

macro_rules! operations {
    ($($variant:ident = $name:literal),+ $(,)?) => {
        /// A system call, library call or ring operation, named as strace prints it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Operation { $(#[doc = concat!("`", $name, "`")] $variant),+ }

        impl Operation {
            /// Every operation, in the order of declaration.
            pub const ALL: &'static [Operation] = &[$(Operation::$variant),+];

            /// Returns the name as strace prints it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Operation::$variant => $name),+ }
            }
        }
    };
}

operations! {
    Openat = "openat",
    Execve = "execve",
    Wait4 = "wait4",
    Statx = "statx",
    Getdents = "getdents64",
    Read = "read",
    Write = "write",
    CopyFileRange = "copy_file_range",
    Pipe = "pipe2",
    Splice = "splice",
    Ficlone = "ficlone",
    Fallocate = "fallocate",
    Fadvise = "fadvise64",
    SyncFileRange = "sync_file_range",
    Cachestat = "cachestat",
    Lseek = "lseek",
    Ftruncate = "ftruncate",
    Fsync = "fsync",
    Syncfs = "syncfs",
    Fstatfs = "fstatfs",
    Close = "close",
    Fcntl = "fcntl",
    Mkdirat = "mkdirat",
    Mknodat = "mknodat",
    Symlinkat = "symlinkat",
    Linkat = "linkat",
    Unlinkat = "unlinkat",
    Renameat = "renameat2",
    Faccessat = "faccessat2",
    Readlinkat = "readlinkat",
    Fchmod = "fchmod",
    Fchown = "fchown",
    Utimensat = "utimensat",
    Flistxattr = "flistxattr",
    Fgetxattr = "fgetxattr",
    Fsetxattr = "fsetxattr",
    Fremovexattr = "fremovexattr",
    RingSetup = "io_uring_setup",
    RingRegister = "io_uring_register",
    RingEnter = "io_uring_enter",
    AioInit = "aio_init",
    AioRead = "aio_read",
    AioWrite = "aio_write",
    AioFsync = "aio_fsync",
    LioListio = "lio_listio",
    IoSetup = "io_setup",
    IoSubmit = "io_submit",
    IoGetevents = "io_getevents",
    IoDestroy = "io_destroy",
    Eventfd = "eventfd2",
    Socket = "socket",
    Bind = "bind",
    Listen = "listen",
    Getsockopt = "getsockopt",
    Poll = "poll",
}
