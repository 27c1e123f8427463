//! Sentences of `spdcp`, beyond those of the copy.

haul_flow::kinds! {
    "spdcp"
    /// Kinds of lines that `spdcp` prints.
    pub(crate) enum SpdcpKind {
        /// A target listed by `-d`.
        Target,
    }
}

sentences! { sentence(SpdcpKind):
    Target => "{plain}",
}
