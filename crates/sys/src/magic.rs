//! The kernel's numbers for types of file systems, as `statfs(2)` returns them (`linux/magic.h`).

/// bcachefs.
pub const BCACHEFS: u64 = 0xca45_1a4e;
/// Btrfs.
pub const BTRFS: u64 = 0x9123_683e;
/// CephFS, mounted by the kernel.
pub const CEPH: u64 = 0x00c3_6400;
/// configfs.
pub const CONFIGFS: u64 = 0x6265_6570;
/// exFAT.
pub const EXFAT: u64 = 0x2011_bab0;
/// ext2, ext3 and ext4.
pub const EXT: u64 = 0xef53;
/// F2FS.
pub const F2FS: u64 = 0xf2f5_2010;
/// FUSE: any file system in user space.
pub const FUSE: u64 = 0x6573_5546;
/// HFS+.
pub const HFSPLUS: u64 = 0x482b;
/// JFS.
pub const JFS: u64 = 0x3153_464a;
/// Lustre (`LL_SUPER_MAGIC`).
pub const LUSTRE: u64 = 0x0bd0_0bd0;
/// NILFS2.
pub const NILFS2: u64 = 0x3434;
/// NTFS, by the driver ntfs3.
pub const NTFS3: u64 = 0x7366_746e;
/// overlayfs.
pub const OVERLAYFS: u64 = 0x794c_7630;
/// proc.
pub const PROC: u64 = 0x9fa0;
/// ramfs.
pub const RAMFS: u64 = 0x8584_58f6;
/// ReiserFS.
pub const REISERFS: u64 = 0x5265_4973;
/// sysfs.
pub const SYSFS: u64 = 0x6265_6572;
/// tmpfs.
pub const TMPFS: u64 = 0x0102_1994;
/// UDF.
pub const UDF: u64 = 0x1501_3346;
/// FAT.
pub const VFAT: u64 = 0x4d44;
/// XFS.
pub const XFS: u64 = 0x5846_5342;
/// ZFS.
pub const ZFS: u64 = 0x2fc1_2fc1;
