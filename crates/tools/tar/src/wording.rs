//! Messages of the tar applet, worded as in GNU tar: the name comes first, and is escaped,
//! not quoted.

use haul_flow::Wording;

macro_rules! wordings {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)+) => {
        $($(#[$doc])* pub const $name: Wording = Wording($text);)+
    };
}

// Creating archives.
wordings! {
    /// A file cannot be opened.
    CANNOT_OPEN = "{escape}: Cannot open";
    /// An entry cannot be examined.
    CANNOT_STAT = "{escape}: Cannot stat";
    /// A file cannot be read.
    CANNOT_READ = "{escape}: Read error";
    /// A symbolic link cannot be read.
    CANNOT_READ_LINK = "{escape}: Cannot readlink";
    /// The holes of a file cannot be found.
    CANNOT_SEEK = "{escape}: Cannot seek";
    /// Extended attributes cannot be listed.
    CANNOT_LIST_ATTRIBUTES = "{escape}: Cannot list extended attributes";
    /// An extended attribute cannot be read.
    CANNOT_READ_ATTRIBUTE = "{escape}: Warning: Cannot read extended attribute '{escape}'";
    /// A name does not fit the format.
    NAME_TOO_LONG = "{escape}: file name is too long (cannot be split); not dumped";
    /// The target of a link does not fit the format.
    LINK_TOO_LONG = "{escape}: link name is too long; not dumped";
    /// A number does not fit the format.
    NUMBER_TOO_LARGE = "{escape}: value {bare} out of {bare} range 0..{bare}; not dumped";
    /// A directory contains itself, through a link that is followed.
    LOOP = "{escape}: contains itself through a symbolic link; not dumped again";
    /// An entry was removed since it was listed.
    REMOVED = "{escape}: File removed before we read it";
    /// A file changed while it was read.
    CHANGED = "{escape}: file changed as we read it";
    /// A file shrank.
    SHRANK = "{escape}: File shrank by {bare} bytes; padding with zeros";
    /// A socket was skipped.
    SOCKET_IGNORED = "{escape}: socket ignored";
    /// A file of unknown type was skipped.
    UNKNOWN_IGNORED = "{escape}: Unknown file type; file ignored";
    /// The archive is in the tree that it archives.
    IS_THE_ARCHIVE = "{escape}: file is the archive; not dumped";
    /// An entry is on another file system.
    OTHER_FILE_SYSTEM = "{escape}: file is on a different filesystem; not dumped";
    /// A prefix is stripped from member names.
    REMOVING_PREFIX = "Removing leading `{bare}' from member names";
    /// A prefix is stripped from the targets of hard links.
    REMOVING_LINK_PREFIX = "Removing leading `{bare}' from hard link targets";
    /// The archive cannot be written.
    CANNOT_WRITE = "{escape}: Cannot write";
    /// The compressor failed.
    CANNOT_COMPRESS = "Cannot compress: {bare}";
    /// Closing the archive failed, so written data may be lost.
    CANNOT_CLOSE = "{escape}: Cannot close";
    /// The program of `-I` failed.
    CHILD_FAILED = "{escape}: {bare}";
    /// A file that could not be read has other names in the archive.
    LINKS_LOST = "{escape}: its other names in the archive lead nowhere";
    /// A line of `--verbose`.
    MEMBER = "{escape}";
    /// An index was requested for an archive that is not seekable.
    INDEX_WANTS_FILE = "--index wants an archive that is a file and not compressed";
    /// The index cannot be made.
    NO_INDEX = "Cannot make the index: {bare}";
    /// The last line after an error.
    EXITING = "Exiting with failure status due to previous errors";
    /// The last line after a fatal error.
    NOT_RECOVERABLE = "Error is not recoverable: exiting now";
    /// There is nothing to archive.
    EMPTY_ARCHIVE = "Cowardly refusing to create an empty archive";
    /// The archive would be written to a terminal.
    TERMINAL = "Refusing to write archive contents to terminal (missing -f option?)";
}

// Reading archives.
wordings! {
    /// The first block is not a header.
    NOT_AN_ARCHIVE = "This does not look like a tar archive";
    /// The decompressed data does not begin with a header.
    COMPRESSED_NO_ARCHIVE = "This does not look like a tar archive: it is compressed with {bare}, and no archive is in it";
    /// The archive is compressed in a format that is not supported.
    UNKNOWN_COMPRESSION = "This does not look like a tar archive: it is compressed with {bare}; try -I {bare}";
    /// The program of `-I` cannot be started.
    CANNOT_START = "{escape}: Cannot exec";
    /// Trailing garbage follows the compressed stream.
    TRAILING_GARBAGE = "{escape}: trailing garbage after EOF ignored";
    /// A block that should be a header is not.
    SKIPPING = "Skipping to next header";
    /// The archive ends inside a member.
    UNEXPECTED_END = "Unexpected EOF in archive";
    /// The archive cannot be read further.
    ARCHIVE_READ = "{escape}: Cannot read";
    /// The compressed data is damaged.
    DAMAGED = "{escape}: {bare}";
    /// The archive cannot be opened.
    ARCHIVE_OPEN = "{escape}: Cannot open";
    /// A single block of zeros ends the archive.
    LONE_ZERO_BLOCK = "A lone zero block at {bare}";
    /// A field of a header is not a number.
    BAD_NUMBER = "{escape}: Archive contains something else where numeric {bare} value expected";
    /// An extended header exceeds the limit on memory.
    EXTENDED_TOO_LONG = "An extended header of {bare} bytes is too long; its member is left out";
    /// An extended header is malformed.
    MALFORMED_EXTENDED = "Malformed extended header";
    /// The map of a sparse file is invalid.
    MALFORMED_SPARSE = "{escape}: invalid sparse archive member";
}

// Listing archives.
wordings! {
    /// No member has a name that the user gave.
    NOT_FOUND = "{escape}: Not found in archive";
    /// A line of `-t`.
    LISTED = "{escape}";
    /// A line of `-tv`: mode and owners; size and date; name.
    LISTED_LONG = "{bare}{bare}{escape}";
    /// The same for a symbolic link.
    LISTED_SYMLINK = "{bare}{bare}{escape} -> {escape}";
    /// The same for a hard link.
    LISTED_HARD_LINK = "{bare}{bare}{escape} link to {escape}";
    /// The same for a volume header.
    LISTED_VOLUME = "{bare}{bare}{escape}--Volume Header--";
    /// The same for the rest of a file from another volume.
    LISTED_CONTINUED = "{bare}{bare}{escape}--Continued at byte of another volume--";
    /// The same for an unknown type.
    LISTED_UNKNOWN = "{bare}{bare}{escape} unknown file type {prose}";
}

// Extracting archives.
wordings! {
    /// The name of a member has a `..`.
    DOT_DOT = "{escape}: Member name contains '..'";
    /// The path of a member leads out of the extraction directory.
    LEADS_OUT = "{escape}: Leads out of the directory of extraction; not extracted";
    /// A member that is not a directory takes the place of the root.
    IS_ROOT = "{escape}: Cannot open: File exists";
    /// A member is the rest of a file from another volume.
    CONTINUED = "{escape}: Cannot extract -- file is continued from another volume";
    /// The type of a member is unknown.
    UNKNOWN_KIND = "{escape}: Unknown file type '{bare}', extracted as normal file";
    /// Another process replaced what was just made.
    REPLACED_WHILE_MADE = "{escape}: Replaced while it was being extracted; not changed";
    /// A directory cannot be made.
    CANNOT_MAKE_DIRECTORY = "{escape}: Cannot mkdir";
    /// A symbolic link cannot be made.
    CANNOT_MAKE_SYMLINK = "{escape}: Cannot create symlink to {prose}";
    /// A hard link cannot be made.
    CANNOT_LINK = "{escape}: Cannot hard link to {prose}";
    /// A FIFO cannot be made.
    CANNOT_MAKE_FIFO = "{escape}: Cannot mkfifo";
    /// A device cannot be made.
    CANNOT_MAKE_NODE = "{escape}: Cannot mknod";
    /// An owner cannot be set.
    CANNOT_OWN = "{escape}: Cannot change ownership";
    /// A mode cannot be set.
    CANNOT_CHANGE_MODE = "{escape}: Cannot change mode";
    /// Times cannot be set.
    CANNOT_TOUCH = "{escape}: Cannot utime";
    /// An extended attribute cannot be set.
    CANNOT_SET_XATTR = "{escape}: Cannot set the extended attribute {escape}";
    /// An access list cannot be set.
    CANNOT_SET_ACCESS_LIST = "{escape}: Cannot set the access list";
}
