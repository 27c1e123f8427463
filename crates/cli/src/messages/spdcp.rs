//! Sentences of `spdcp`, beyond those of the copy.

haul_flow::kinds! {
    "spdcp"
    /// What a line of `spdcp` is.
    pub(crate) enum SpdcpKind {
        /// A target listed by `-d`.
        Target,
    }
}

sentences! { sentence(SpdcpKind):
    Target => "{plain}",
}
