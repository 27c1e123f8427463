//! Sentences of the deletion, worded like GNU rm's where it has one.

use haul_delete::DeleteKind;

sentences! { sentence(DeleteKind):
    CannotList => "cannot list directory {}",
    SameName => "{} stands for two names of SOURCE, which are the same here",
    CannotStat => "cannot stat {}",
    CannotRemove => "cannot remove {}",
    Replaced => "not removing {}, as it was replaced meanwhile",
    IsSource => "cannot remove {}, as it is SOURCE",
    MountPoint => "cannot remove {}, as it is on another file system or something is mounted there",
    Times => "preserving times for {}",
    AfterErrors => "nothing was deleted from {}, because of the errors above",
    EmptySource => "{} has nothing to copy, so nothing was deleted from {} (--really overrides this)",
    TooMany => "nothing was deleted: it would be {bare} of the {bare} entries of {} (--max-delete sets the limit)",
    Removed => "removed {}",
    RemovedDirectory => "removed directory {}",
    Itemized => "*deleting   {itemized}",
}
