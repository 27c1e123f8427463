//! Kinds of problems and lines of a comparison.

haul_flow::kinds! {
    "compare"
    /// Kinds of problems and lines of a comparison.
    pub enum CompareKind {
        /// An entry exists in only one of two directories.
        OnlyIn = "Only in {plain}: {plain}",
        Types = "File {plain} is a {bare} while file {plain} is a {bare}",
        /// Two files differ in some respect.
        Files = "Files {plain} and {plain} differ: {bare}",
        /// Two files differ, in brief.
        FilesBriefly = "Files {plain} and {plain} differ",
        Links = "Symbolic links {plain} and {plain} differ",
        /// Two file operands differ first at this position.
        Named = "{plain} {plain} differ: byte {bare}, line {bare}",
        /// A file operand is a prefix of the other, and ends with a complete line.
        Ends = "EOF on {plain} after byte {bare}, line {bare}",
        /// A file operand is a prefix of the other, and ends within a line.
        EndsInLine = "EOF on {plain} after byte {bare}, in line {bare}",
        /// A file operand is empty.
        IsEmpty = "EOF on {plain} which is empty",
        Changed = "{} changed while it was being compared",
        /// A link leads to a directory above it.
        Loop = "{}: recursive directory loop",
        CannotStat = "cannot stat {}",
        CannotOpen = "cannot open {}",
        CannotList = "cannot access {}",
        ErrorReading = "error reading {}",
        CannotReadLink = "cannot read symbolic link {}",
        CannotReadXattrs = "cannot read the extended attributes of {}",
        FailedToClose = "failed to close {}",
        TooMany = "too many differences to sort; listing the rest as found",
        /// Attributes were requested for a stream.
        StreamAttributes = "--attributes compares files and trees, not pipes or devices",
        /// A stream is to be read past the page cache.
        StreamDirect = "--direct compares files and trees, not pipes or devices",
        /// The selection is for files and trees, and an operand is a stream.
        StreamSelection = "--exclude and the like choose among files, not pipes or devices",
        /// The selection takes neither of two file operands.
        LeftOut = "{} and {} were not compared: both are left out",
        NotDirect = "cannot read {} past the page cache",
        /// Another rank's result can't be decoded.
        BadResult = "cannot read the result of comparing {}",
    }
}
