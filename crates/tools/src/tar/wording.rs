//! The sentences of the tar tool, worded as GNU tar words them: the name comes first, and is escaped, not quoted.

use haul_flow::Wording;

macro_rules! wordings {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)+) => {
        $($(#[$doc])* pub const $name: Wording = Wording($text);)+
    };
}

// Of archives that are made.
wordings! {
    /// A file that cannot be opened.
    CANNOT_OPEN = "{escape}: Cannot open";
    /// An entry that cannot be looked at.
    CANNOT_STAT = "{escape}: Cannot stat";
    /// A file that cannot be read.
    CANNOT_READ = "{escape}: Read error";
    /// A symbolic link that cannot be read.
    CANNOT_READ_LINK = "{escape}: Cannot readlink";
    /// A file whose holes cannot be found.
    CANNOT_SEEK = "{escape}: Cannot seek";
    /// Extended attributes that cannot be listed.
    CANNOT_LIST_ATTRIBUTES = "{escape}: Cannot list extended attributes";
    /// One that cannot be read.
    CANNOT_READ_ATTRIBUTE = "{escape}: Warning: Cannot read extended attribute '{escape}'";
    /// A name that the format has no room for.
    NAME_TOO_LONG = "{escape}: file name is too long (cannot be split); not dumped";
    /// What a link leads to, if the format has no room for it.
    LINK_TOO_LONG = "{escape}: link name is too long; not dumped";
    /// A number that the format has no room for.
    NUMBER_TOO_LARGE = "{escape}: value {bare} out of {bare} range 0..{bare}; not dumped";
    /// A directory that is in itself, by a link that is followed.
    LOOP = "{escape}: contains itself through a symbolic link; not dumped again";
    /// An entry that was found and is not there any more.
    REMOVED = "{escape}: File removed before we read it";
    /// A file that changes.
    CHANGED = "{escape}: file changed as we read it";
    /// A file that is shorter than it was.
    SHRANK = "{escape}: File shrank by {bare} bytes; padding with zeros";
    /// A socket.
    SOCKET_IGNORED = "{escape}: socket ignored";
    /// Something this program has no name for.
    UNKNOWN_IGNORED = "{escape}: Unknown file type; file ignored";
    /// The archive is in the tree.
    IS_THE_ARCHIVE = "{escape}: file is the archive; not dumped";
    /// An entry on another file system.
    OTHER_FILE_SYSTEM = "{escape}: file is on a different filesystem; not dumped";
    /// What a name begins with is taken away.
    REMOVING_PREFIX = "Removing leading `{bare}' from member names";
    /// What a link leads to begins with what is taken away.
    REMOVING_LINK_PREFIX = "Removing leading `{bare}' from hard link targets";
    /// The archive cannot be written.
    CANNOT_WRITE = "{escape}: Cannot write";
    /// The compressor has failed.
    CANNOT_COMPRESS = "Cannot compress: {bare}";
    /// What was written of the archive may be lost.
    CANNOT_CLOSE = "{escape}: Cannot close";
    /// The program of -I has failed.
    CHILD_FAILED = "{escape}: {bare}";
    /// A file that could not be read has other names in the archive.
    LINKS_LOST = "{escape}: its other names in the archive lead nowhere";
    /// The line of `--verbose`.
    MEMBER = "{escape}";
    /// An index for an archive that cannot be sought in.
    INDEX_WANTS_FILE = "--index wants an archive that is a file and not compressed";
    /// The index cannot be made.
    NO_INDEX = "Cannot make the index: {bare}";
    /// The last line, if something could not be done.
    EXITING = "Exiting with failure status due to previous errors";
    /// The last line, if nothing more can be done.
    NOT_RECOVERABLE = "Error is not recoverable: exiting now";
    /// Nothing to archive.
    EMPTY_ARCHIVE = "Cowardly refusing to create an empty archive";
    /// The archive would be shown on the screen.
    TERMINAL = "Refusing to write archive contents to terminal (missing -f option?)";
}

// Of archives that are read.
wordings! {
    /// The first block is no header.
    NOT_AN_ARCHIVE = "This does not look like a tar archive";
    /// What is compressed does not begin with a header.
    COMPRESSED_NO_ARCHIVE = "This does not look like a tar archive: it is compressed with {bare}, and no archive is in it";
    /// A compression that is not read here.
    UNKNOWN_COMPRESSION = "This does not look like a tar archive: it is compressed with {bare}; try -I {bare}";
    /// The program of -I cannot be started.
    CANNOT_START = "{escape}: Cannot exec";
    /// Something follows the compressed stream.
    TRAILING_GARBAGE = "{escape}: trailing garbage after EOF ignored";
    /// A block that should be a header is none.
    SKIPPING = "Skipping to next header";
    /// The archive ends within a member.
    UNEXPECTED_END = "Unexpected EOF in archive";
    /// The archive cannot be read on.
    ARCHIVE_READ = "{escape}: Cannot read";
    /// The archive is compressed, and damaged.
    DAMAGED = "{escape}: {bare}";
    /// The archive cannot be opened.
    ARCHIVE_OPEN = "{escape}: Cannot open";
    /// A single block of zeros.
    LONE_ZERO_BLOCK = "A lone zero block at {bare}";
    /// A field of a header is no number.
    BAD_NUMBER = "{escape}: Archive contains something else where numeric {bare} value expected";
    /// What stands before a member is longer than memory should be given for.
    EXTENDED_TOO_LONG = "An extended header of {bare} bytes is too long; its member is left out";
    /// What stands before a member is not as it should be.
    MALFORMED_EXTENDED = "Malformed extended header";
    /// The map of a sparse file cannot be.
    MALFORMED_SPARSE = "{escape}: invalid sparse archive member";
}

// Of archives that are listed.
wordings! {
    /// A name that the user gave, and no member has.
    NOT_FOUND = "{escape}: Not found in archive";
    /// A line of `-t`.
    LISTED = "{escape}";
    /// A line of `-tv`: mode and owners; size and date; the name.
    LISTED_LONG = "{bare}{bare}{escape}";
    /// The same of a symbolic link.
    LISTED_SYMLINK = "{bare}{bare}{escape} -> {escape}";
    /// The same of a further name.
    LISTED_HARD_LINK = "{bare}{bare}{escape} link to {escape}";
    /// The same of the name of the volume.
    LISTED_VOLUME = "{bare}{bare}{escape}--Volume Header--";
    /// The same of the rest of a file.
    LISTED_CONTINUED = "{bare}{bare}{escape}--Continued at byte of another volume--";
    /// The same of what has no name here.
    LISTED_UNKNOWN = "{bare}{bare}{escape} unknown file type {prose}";
}

// Of archives that are extracted.
wordings! {
    /// A member whose name has a `..`.
    DOT_DOT = "{escape}: Member name contains '..'";
    /// A member whose way leads out of the place of extraction.
    LEADS_OUT = "{escape}: Leads out of the directory of extraction; not extracted";
    /// A file in the place of the root.
    IS_ROOT = "{escape}: Cannot open: File exists";
    /// The rest of a file.
    CONTINUED = "{escape}: Cannot extract -- file is continued from another volume";
    /// A kind of member that nobody knows.
    UNKNOWN_KIND = "{escape}: Unknown file type '{bare}', extracted as normal file";
    /// Somebody put something else in the place of what was just made.
    REPLACED_WHILE_MADE = "{escape}: Replaced while it was being extracted; not changed";
    /// A directory that cannot be made.
    CANNOT_MAKE_DIRECTORY = "{escape}: Cannot mkdir";
    /// A symbolic link that cannot be made.
    CANNOT_MAKE_SYMLINK = "{escape}: Cannot create symlink to {prose}";
    /// A further name that cannot be given.
    CANNOT_LINK = "{escape}: Cannot hard link to {prose}";
    /// A FIFO that cannot be made.
    CANNOT_MAKE_FIFO = "{escape}: Cannot mkfifo";
    /// A device that cannot be made.
    CANNOT_MAKE_NODE = "{escape}: Cannot mknod";
    /// An owner that cannot be set.
    CANNOT_OWN = "{escape}: Cannot change ownership";
    /// A mode that cannot be set.
    CANNOT_CHANGE_MODE = "{escape}: Cannot change mode";
    /// Times that cannot be set.
    CANNOT_TOUCH = "{escape}: Cannot utime";
    /// An extended attribute that cannot be set.
    CANNOT_SET_XATTR = "{escape}: Cannot set the extended attribute {escape}";
    /// An access list that cannot be set.
    CANNOT_SET_ACCESS_LIST = "{escape}: Cannot set the access list";
}
