# Completion of haul for bash, and of the programs in whose place it stands.
# Generated from the options' definitions: cargo xtask gen.

_haul() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    local command=haul option= lead= words= list= names= ended= position=0 word
    local IFS=$' \t\n'
    COMPREPLY=()
    case ${COMP_WORDS[0]##*/} in
        cp) command=haul_cp ;;
        spdcp) command=haul_spdcp ;;
        bzip2) command=haul_bzip2 ;;
        bunzip2) command=haul_bzip2 ;;
        bzcat) command=haul_bzip2 ;;
    esac
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        [[ $word == -- ]] && ended=yes
        [[ $word == -* ]] || position=$((position + 1))
        case $command/$word in
            haul/cp) command=haul_cp ;;
            haul/sync) command=haul_sync ;;
            haul/spdcp) command=haul_spdcp ;;
            haul/bzip2) command=haul_bzip2 ;;
            haul/cmp) command=haul_cmp ;;
            haul/each) command=haul_each ;;
            haul/grep) command=haul_grep ;;
            haul/sum) command=haul_sum ;;
            haul/tar) command=haul_tar ;;
            haul/ctl) command=haul_ctl ;;
            haul/bench) command=haul_bench ;;
            haul_bench/make) command=haul_bench_make ;;
            haul_bench/compare) command=haul_bench_compare ;;
            haul_bench/auto) command=haul_bench_auto ;;
            haul_bench/run) command=haul_bench_run ;;
            haul_bench/start) command=haul_bench_start ;;
            haul_bench/aio) command=haul_bench_aio ;;
            haul_bench/tools) command=haul_bench_tools ;;
            haul_bench/simulate) command=haul_bench_simulate ;;
            haul/help) command=haul_help ;;
        esac
    done

    # Which option's argument the word is, if it is one.
    if [[ $ended ]]; then
        :
    elif [[ $cur == --*=* ]]; then
        option=${cur%%=*} lead=${cur%%=*}= cur=${cur#*=}
    elif [[ $cur == = ]]; then
        option=$prev cur=
    elif [[ $prev == = ]]; then
        option=${COMP_WORDS[COMP_CWORD-2]}
    else
        case $command:$prev in
            haul_cp:--no-preserve | haul_cp:--sparse | haul_cp:--suffix | haul_cp:--target-directory | haul_cp:--journal | haul_cp:--manifest | haul_cp:--manifest-format | haul_cp:--hash | haul_cp:--if-changed | haul_cp:--on-full | haul_cp:--bwlimit | haul_cp:--block-size | haul_cp:--ops | haul_cp:--walk | haul_cp:--range-size | haul_cp:--io-factor | haul_cp:--exclude | haul_cp:--include | haul_cp:--exclude-from | haul_cp:--files-from | haul_cp:--files0-from | haul_cp:--min-size | haul_cp:--max-size | haul_cp:--newer-than | haul_cp:--older-than | haul_cp:--jobs | haul_cp:--engine | haul_cp:--queue-depth | haul_cp:--look-ahead | haul_cp:--iops-limit | haul_cp:--max-latency | haul_cp:--control | haul_cp:--events | haul_cp:--log-file | haul_cp:--clients | haul_cp:--account | haul_cp:--walltime | haul_cp:--queue | haul_cp:--launcher | haul_cp:--mpi-lib) option=$prev ;;
            haul_cp:-[Stj] | haul_cp:-[!-]*[Stj]) option=-${prev: -1} ;;
            haul_sync:--modify-window | haul_sync:--max-delete | haul_sync:--backup-dir | haul_sync:--link-dest | haul_sync:--no-preserve | haul_sync:--sparse | haul_sync:--if-changed | haul_sync:--on-full | haul_sync:--bwlimit | haul_sync:--block-size | haul_sync:--ops | haul_sync:--walk | haul_sync:--range-size | haul_sync:--io-factor | haul_sync:--exclude | haul_sync:--include | haul_sync:--exclude-from | haul_sync:--files-from | haul_sync:--files0-from | haul_sync:--min-size | haul_sync:--max-size | haul_sync:--newer-than | haul_sync:--older-than | haul_sync:--jobs | haul_sync:--engine | haul_sync:--queue-depth | haul_sync:--look-ahead | haul_sync:--iops-limit | haul_sync:--max-latency | haul_sync:--control | haul_sync:--events | haul_sync:--log-file | haul_sync:--clients | haul_sync:--account | haul_sync:--walltime | haul_sync:--queue | haul_sync:--launcher | haul_sync:--mpi-lib) option=$prev ;;
            haul_sync:-[j] | haul_sync:-[!-]*[j]) option=-${prev: -1} ;;
            haul_spdcp:-[bsAwq] | haul_spdcp:-[!-]*[bsAwq]) option=-${prev: -1} ;;
            haul_bzip2:--exclude | haul_bzip2:--include | haul_bzip2:--exclude-from | haul_bzip2:--files-from | haul_bzip2:--files0-from | haul_bzip2:--min-size | haul_bzip2:--max-size | haul_bzip2:--newer-than | haul_bzip2:--older-than | haul_bzip2:--jobs | haul_bzip2:--engine | haul_bzip2:--queue-depth | haul_bzip2:--look-ahead | haul_bzip2:--iops-limit | haul_bzip2:--max-latency | haul_bzip2:--control | haul_bzip2:--events | haul_bzip2:--log-file | haul_bzip2:--clients | haul_bzip2:--account | haul_bzip2:--walltime | haul_bzip2:--queue | haul_bzip2:--launcher | haul_bzip2:--mpi-lib) option=$prev ;;
            haul_bzip2:-[j] | haul_bzip2:-[!-]*[j]) option=-${prev: -1} ;;
            haul_cmp:--exclude | haul_cmp:--manifest | haul_cmp:--hash | haul_cmp:--include | haul_cmp:--exclude-from | haul_cmp:--files-from | haul_cmp:--files0-from | haul_cmp:--min-size | haul_cmp:--max-size | haul_cmp:--newer-than | haul_cmp:--older-than | haul_cmp:--jobs | haul_cmp:--engine | haul_cmp:--queue-depth | haul_cmp:--look-ahead | haul_cmp:--iops-limit | haul_cmp:--max-latency | haul_cmp:--control | haul_cmp:--events | haul_cmp:--log-file | haul_cmp:--clients | haul_cmp:--account | haul_cmp:--walltime | haul_cmp:--queue | haul_cmp:--launcher | haul_cmp:--mpi-lib) option=$prev ;;
            haul_cmp:-[xj] | haul_cmp:-[!-]*[xj]) option=-${prev: -1} ;;
            haul_each:--name | haul_each:--type | haul_each:--size | haul_each:--newer | haul_each:--batch | haul_each:--block | haul_each:--sort | haul_each:--halt | haul_each:--exclude | haul_each:--include | haul_each:--exclude-from | haul_each:--files-from | haul_each:--files0-from | haul_each:--min-size | haul_each:--max-size | haul_each:--newer-than | haul_each:--older-than | haul_each:--jobs | haul_each:--engine | haul_each:--queue-depth | haul_each:--look-ahead | haul_each:--iops-limit | haul_each:--max-latency | haul_each:--control | haul_each:--events | haul_each:--log-file | haul_each:--clients | haul_each:--account | haul_each:--walltime | haul_each:--queue | haul_each:--launcher | haul_each:--mpi-lib) option=$prev ;;
            haul_each:-[j] | haul_each:-[!-]*[j]) option=-${prev: -1} ;;
            haul_grep:--regexp | haul_grep:--file | haul_grep:--max-count | haul_grep:--label | haul_grep:--binary-files | haul_grep:--directories | haul_grep:--devices | haul_grep:--include | haul_grep:--exclude | haul_grep:--exclude-from | haul_grep:--exclude-dir | haul_grep:--before-context | haul_grep:--after-context | haul_grep:--context | haul_grep:--group-separator | haul_grep:--sort | haul_grep:--jobs | haul_grep:--engine | haul_grep:--queue-depth | haul_grep:--look-ahead | haul_grep:--iops-limit | haul_grep:--max-latency | haul_grep:--control | haul_grep:--events | haul_grep:--log-file | haul_grep:--clients | haul_grep:--account | haul_grep:--walltime | haul_grep:--queue | haul_grep:--launcher | haul_grep:--mpi-lib) option=$prev ;;
            haul_grep:-[efmdDBACj] | haul_grep:-[!-]*[efmdDBACj]) option=-${prev: -1} ;;
            haul_sum:--hash | haul_sum:--manifest-format | haul_sum:--output | haul_sum:--exclude | haul_sum:--include | haul_sum:--exclude-from | haul_sum:--files-from | haul_sum:--files0-from | haul_sum:--min-size | haul_sum:--max-size | haul_sum:--newer-than | haul_sum:--older-than | haul_sum:--jobs | haul_sum:--engine | haul_sum:--queue-depth | haul_sum:--look-ahead | haul_sum:--iops-limit | haul_sum:--max-latency | haul_sum:--control | haul_sum:--events | haul_sum:--log-file | haul_sum:--clients | haul_sum:--account | haul_sum:--walltime | haul_sum:--queue | haul_sum:--launcher | haul_sum:--mpi-lib) option=$prev ;;
            haul_sum:-[oj] | haul_sum:-[!-]*[oj]) option=-${prev: -1} ;;
            haul_tar:--file | haul_tar:--directory | haul_tar:--use-compress-program | haul_tar:--exclude | haul_tar:--exclude-from | haul_tar:--files-from | haul_tar:--xattrs-include | haul_tar:--xattrs-exclude | haul_tar:--format | haul_tar:--sort | haul_tar:--owner | haul_tar:--group | haul_tar:--mode | haul_tar:--mtime | haul_tar:--strip-components | haul_tar:--jobs | haul_tar:--engine | haul_tar:--queue-depth | haul_tar:--look-ahead | haul_tar:--iops-limit | haul_tar:--max-latency | haul_tar:--control | haul_tar:--events | haul_tar:--log-file | haul_tar:--clients | haul_tar:--account | haul_tar:--walltime | haul_tar:--queue | haul_tar:--launcher | haul_tar:--mpi-lib) option=$prev ;;
            haul_tar:-[fCIXT] | haul_tar:-[!-]*[fCIXT]) option=-${prev: -1} ;;
            haul_bench_make:--files | haul_bench_make:--size | haul_bench_make:--directories | haul_bench_make:--fan-out | haul_bench_make:--depth | haul_bench_make:--scale | haul_bench_make:--seed) option=$prev ;;
            haul_bench_compare:--tree | haul_bench_compare:--cache | haul_bench_compare:--rounds | haul_bench_compare:--fs | haul_bench_compare:--source-fs | haul_bench_compare:--work | haul_bench_compare:--haul | haul_bench_compare:--before | haul_bench_compare:--with | haul_bench_compare:--haul-args | haul_bench_compare:--rivals-path | haul_bench_compare:--only | haul_bench_compare:--time-limit | haul_bench_compare:--json | haul_bench_compare:--files | haul_bench_compare:--size | haul_bench_compare:--directories | haul_bench_compare:--fan-out | haul_bench_compare:--depth | haul_bench_compare:--scale | haul_bench_compare:--seed) option=$prev ;;
            haul_bench_auto:--trees | haul_bench_auto:--file-systems | haul_bench_auto:--cache | haul_bench_auto:--latency | haul_bench_auto:--rounds | haul_bench_auto:--rounds-again | haul_bench_auto:--scale | haul_bench_auto:--seed | haul_bench_auto:--work | haul_bench_auto:--haul | haul_bench_auto:--standin | haul_bench_auto:--time-limit | haul_bench_auto:--markdown | haul_bench_auto:--json | haul_bench_auto:--svg) option=$prev ;;
            haul_bench_run:--scale | haul_bench_run:--rounds | haul_bench_run:--work | haul_bench_run:--fs | haul_bench_run:--haul | haul_bench_run:--only | haul_bench_run:--time-limit | haul_bench_run:--standin | haul_bench_run:--mounts | haul_bench_run:--from | haul_bench_run:--json | haul_bench_run:--csv | haul_bench_run:--html) option=$prev ;;
            haul_bench_start:--runs | haul_bench_start:--work | haul_bench_start:--haul | haul_bench_start:--before) option=$prev ;;
            haul_bench_aio:--pattern | haul_bench_aio:--kind | haul_bench_aio:--engine | haul_bench_aio:--file-size | haul_bench_aio:--record-size | haul_bench_aio:--depth | haul_bench_aio:--per-iteration | haul_bench_aio:--max-submit | haul_bench_aio:--alignment | haul_bench_aio:--seed | haul_bench_aio:--rounds) option=$prev ;;
            haul_bench_tools:--only | haul_bench_tools:--scale | haul_bench_tools:--tree | haul_bench_tools:--rounds | haul_bench_tools:--work | haul_bench_tools:--haul | haul_bench_tools:--standin | haul_bench_tools:--time-limit | haul_bench_tools:--json) option=$prev ;;
            haul_bench_simulate:--clients | haul_bench_simulate:--files | haul_bench_simulate:--list-rate | haul_bench_simulate:--lost-ranks | haul_bench_simulate:--restart-time | haul_bench_simulate:--stragglers | haul_bench_simulate:--straggler-speed | haul_bench_simulate:--target-spread | haul_bench_simulate:--seed | haul_bench_simulate:--json | haul_bench_simulate:--html) option=$prev ;;
        esac
    fi

    if [[ $option ]]; then
        case $command:$option in
            haul_cp:--backup) words='none off simple never existing nil numbered t' ;;
            haul_cp:--no-preserve) list='mode timestamps ownership links context xattr all' ;;
            haul_cp:--preserve) list='mode timestamps ownership links context xattr all' ;;
            haul_cp:--sparse) words='never auto always' ;;
            haul_cp:--reflink) words='auto always never' ;;
            haul_cp:-t | haul_cp:--target-directory) names=directories ;;
            haul_cp:-u | haul_cp:--update) words='all none none-fail older' ;;
            haul_cp:--journal) names=files ;;
            haul_cp:--manifest) names=files ;;
            haul_cp:--manifest-format) words='b3sum bsd json mhl' ;;
            haul_cp:--hash) words='blake3 xxh128 xxh64 sha256 md5' ;;
            haul_cp:--fsync) words='end each' ;;
            haul_cp:--verify) words='target both stream' ;;
            haul_cp:--if-changed) words='ignore warn retry' ;;
            haul_cp:--on-full) words='stop pause' ;;
            haul_cp:--ops) words='single multi batch' ;;
            haul_cp:--walk) words='launch ranks' ;;
            haul_cp:--exclude-from) names=files ;;
            haul_cp:--files-from) names=files ;;
            haul_cp:--files0-from) names=files ;;
            haul_cp:--newer-than) names=files ;;
            haul_cp:--older-than) names=files ;;
            haul_cp:--engine) words='auto sync io-uring posix-aio kernel-aio retry' ;;
            haul_cp:--control) names=files ;;
            haul_cp:-g | haul_cp:--progress) words='auto always never' ;;
            haul_cp:--stats) words='json' ;;
            haul_cp:--events) names=files ;;
            haul_cp:--log-file) names=files ;;
            haul_cp:--launcher) names=programs ;;
            haul_cp:--mpi-lib) names=files ;;
            haul_sync:--backup-dir) names=directories ;;
            haul_sync:--link-dest) names=directories ;;
            haul_sync:--no-preserve) list='mode timestamps ownership links context xattr all' ;;
            haul_sync:--sparse) words='never auto always' ;;
            haul_sync:--reflink) words='auto always never' ;;
            haul_sync:--fsync) words='end each' ;;
            haul_sync:--verify) words='target both stream' ;;
            haul_sync:--if-changed) words='ignore warn retry' ;;
            haul_sync:--on-full) words='stop pause' ;;
            haul_sync:--ops) words='single multi batch' ;;
            haul_sync:--walk) words='launch ranks' ;;
            haul_sync:--exclude-from) names=files ;;
            haul_sync:--files-from) names=files ;;
            haul_sync:--files0-from) names=files ;;
            haul_sync:--newer-than) names=files ;;
            haul_sync:--older-than) names=files ;;
            haul_sync:--engine) words='auto sync io-uring posix-aio kernel-aio retry' ;;
            haul_sync:--control) names=files ;;
            haul_sync:-g | haul_sync:--progress) words='auto always never' ;;
            haul_sync:--stats) words='json' ;;
            haul_sync:--events) names=files ;;
            haul_sync:--log-file) names=files ;;
            haul_sync:--launcher) names=programs ;;
            haul_sync:--mpi-lib) names=files ;;
            haul_bzip2:--exclude-from) names=files ;;
            haul_bzip2:--files-from) names=files ;;
            haul_bzip2:--files0-from) names=files ;;
            haul_bzip2:--newer-than) names=files ;;
            haul_bzip2:--older-than) names=files ;;
            haul_bzip2:--engine) words='auto sync io-uring posix-aio kernel-aio retry' ;;
            haul_bzip2:--control) names=files ;;
            haul_bzip2:-g | haul_bzip2:--progress) words='auto always never' ;;
            haul_bzip2:--stats) words='json' ;;
            haul_bzip2:--events) names=files ;;
            haul_bzip2:--log-file) names=files ;;
            haul_bzip2:--launcher) names=programs ;;
            haul_bzip2:--mpi-lib) names=files ;;
            haul_cmp:--attributes) list='mode ownership timestamps links xattr holes all' ;;
            haul_cmp:--manifest) names=files ;;
            haul_cmp:--hash) words='blake3 xxh128 xxh64 sha256 md5' ;;
            haul_cmp:--exclude-from) names=files ;;
            haul_cmp:--files-from) names=files ;;
            haul_cmp:--files0-from) names=files ;;
            haul_cmp:--newer-than) names=files ;;
            haul_cmp:--older-than) names=files ;;
            haul_cmp:--engine) words='auto sync io-uring posix-aio kernel-aio retry' ;;
            haul_cmp:--control) names=files ;;
            haul_cmp:-g | haul_cmp:--progress) words='auto always never' ;;
            haul_cmp:--stats) words='json' ;;
            haul_cmp:--events) names=files ;;
            haul_cmp:--log-file) names=files ;;
            haul_cmp:--launcher) names=programs ;;
            haul_cmp:--mpi-lib) names=files ;;
            haul_each:--type) list='f d l' ;;
            haul_each:--newer) names=files ;;
            haul_each:--sort) words='path' ;;
            haul_each:--halt) words='soon now' ;;
            haul_each:--exclude-from) names=files ;;
            haul_each:--files-from) names=files ;;
            haul_each:--files0-from) names=files ;;
            haul_each:--newer-than) names=files ;;
            haul_each:--older-than) names=files ;;
            haul_each:--engine) words='auto sync io-uring posix-aio kernel-aio retry' ;;
            haul_each:--control) names=files ;;
            haul_each:-g | haul_each:--progress) words='auto always never' ;;
            haul_each:--stats) words='json' ;;
            haul_each:--events) names=files ;;
            haul_each:--log-file) names=files ;;
            haul_each:--launcher) names=programs ;;
            haul_each:--mpi-lib) names=files ;;
            haul_grep:-f | haul_grep:--file) names=files ;;
            haul_grep:-d | haul_grep:--directories) words='read recurse skip' ;;
            haul_grep:--exclude-from) names=files ;;
            haul_grep:--color | haul_grep:--colour) words='always yes force never no none auto tty if-tty' ;;
            haul_grep:--sort) words='path none' ;;
            haul_grep:--engine) words='auto sync io-uring posix-aio kernel-aio retry' ;;
            haul_grep:--control) names=files ;;
            haul_grep:-g | haul_grep:--progress) words='auto always never' ;;
            haul_grep:--stats) words='json' ;;
            haul_grep:--events) names=files ;;
            haul_grep:--log-file) names=files ;;
            haul_grep:--launcher) names=programs ;;
            haul_grep:--mpi-lib) names=files ;;
            haul_sum:--hash) words='blake3 xxh128 xxh64 sha256 md5' ;;
            haul_sum:--manifest-format) words='b3sum bsd json mhl' ;;
            haul_sum:-o | haul_sum:--output) names=files ;;
            haul_sum:--exclude-from) names=files ;;
            haul_sum:--files-from) names=files ;;
            haul_sum:--files0-from) names=files ;;
            haul_sum:--newer-than) names=files ;;
            haul_sum:--older-than) names=files ;;
            haul_sum:--engine) words='auto sync io-uring posix-aio kernel-aio retry' ;;
            haul_sum:--control) names=files ;;
            haul_sum:-g | haul_sum:--progress) words='auto always never' ;;
            haul_sum:--stats) words='json' ;;
            haul_sum:--events) names=files ;;
            haul_sum:--log-file) names=files ;;
            haul_sum:--launcher) names=programs ;;
            haul_sum:--mpi-lib) names=files ;;
            haul_tar:-f | haul_tar:--file) names=files ;;
            haul_tar:-C | haul_tar:--directory) names=directories ;;
            haul_tar:-I | haul_tar:--use-compress-program) names=programs ;;
            haul_tar:-X | haul_tar:--exclude-from) names=files ;;
            haul_tar:-T | haul_tar:--files-from) names=files ;;
            haul_tar:--format) words='pax posix gnu ustar' ;;
            haul_tar:--sort) words='none inode name' ;;
            haul_tar:--mtime) names=files ;;
            haul_tar:--engine) words='auto sync io-uring posix-aio kernel-aio retry' ;;
            haul_tar:--control) names=files ;;
            haul_tar:--progress) words='auto always never' ;;
            haul_tar:--stats) words='json' ;;
            haul_tar:--events) names=files ;;
            haul_tar:--log-file) names=files ;;
            haul_tar:--launcher) names=programs ;;
            haul_tar:--mpi-lib) names=files ;;
            haul_bench_compare:--tree) names=directories ;;
            haul_bench_compare:--cache) list='cold warm' ;;
            haul_bench_compare:--fs) words='ext4 xfs btrfs' ;;
            haul_bench_compare:--source-fs) words='ext4 xfs btrfs' ;;
            haul_bench_compare:--work) names=directories ;;
            haul_bench_compare:--haul) names=files ;;
            haul_bench_compare:--before) names=files ;;
            haul_bench_compare:--rivals-path) names=directories ;;
            haul_bench_compare:--json) names=files ;;
            haul_bench_auto:--file-systems) list='ext4 xfs btrfs tmpfs' ;;
            haul_bench_auto:--cache) list='cold warm' ;;
            haul_bench_auto:--work) names=directories ;;
            haul_bench_auto:--haul) names=files ;;
            haul_bench_auto:--standin) names=files ;;
            haul_bench_auto:--markdown) names=files ;;
            haul_bench_auto:--json) names=files ;;
            haul_bench_auto:--svg) names=files ;;
            haul_bench_run:--work) names=directories ;;
            haul_bench_run:--fs) words='ext4 xfs btrfs' ;;
            haul_bench_run:--haul) names=files ;;
            haul_bench_run:--standin) names=files ;;
            haul_bench_run:--mounts) names=directories ;;
            haul_bench_run:--from) names=files ;;
            haul_bench_run:--json) names=files ;;
            haul_bench_run:--csv) names=files ;;
            haul_bench_run:--html) names=files ;;
            haul_bench_start:--work) names=directories ;;
            haul_bench_start:--haul) names=files ;;
            haul_bench_start:--before) names=files ;;
            haul_bench_aio:--pattern) list='sequential random' ;;
            haul_bench_aio:--kind) list='read sync-write write' ;;
            haul_bench_aio:--engine) list='sync io-uring posix-aio kernel-aio retry' ;;
            haul_bench_tools:--tree) names=directories ;;
            haul_bench_tools:--work) names=directories ;;
            haul_bench_tools:--haul) names=files ;;
            haul_bench_tools:--standin) names=files ;;
            haul_bench_tools:--json) names=files ;;
            haul_bench_simulate:--json) names=files ;;
            haul_bench_simulate:--html) names=files ;;
        esac
    elif [[ $cur == -* && ! $ended ]]; then
        names=files
        case $command in
            haul) words='cp sync spdcp bzip2 cmp each grep sum tar ctl bench help --help --version' ;;
            haul_cp) words='-a --archive --attributes-only --backup --backup= -b --copy-contents -d --debug -L --dereference -f --force -H -i --interactive -l --link -n --no-clobber -P --no-dereference -p --no-preserve= -T --no-target-directory -x --one-file-system --parents --preserve --preserve= -R -r --recursive --remove-destination --sparse= --reflink --reflink= --strip-trailing-slashes -S --suffix= -s --symbolic-link -t --target-directory= -u --update --update= -v --verbose --keep-directory-symlink -Z --context --context= --help --version --strict --atomic --dry-run --resume --journal= --no-atomic --manifest= --manifest-format= --hash= --fsync --fsync= --verify --verify= --if-changed= --on-full= --bwlimit= --block-size= --ops= --direct --registered-buffers --direct-descriptors --fallocate --no-fallocate --no-readahead --no-advise --drop-cache --no-directory-first --no-inode-order --walk= --range-size= --copy-layout --reduce-stripes --no-stripe-offset --io-factor= --exclude= --include= --exclude-from= --files-from= --files0-from= --null --gitignore --exclude-caches --min-size= --max-size= --newer-than= --older-than= -j --jobs= --engine= --queue-depth= --look-ahead= --nice --iops-limit= --max-latency= --control= -g --progress --progress= --stats --stats= --events= --log-file= --clients= --account= --walltime= --queue= --launcher= --mpi-lib=' ;;
            haul_sync) words='-a --archive -r --recursive -H --hard-links -A --acls -X --xattrs -c --checksum --modify-window= -u --update --existing --ignore-existing --delete --delete-excluded --max-delete= --really --inplace --backup-dir= --link-dest= -n --dry-run -L --dereference -x --one-file-system --no-preserve= --sparse= --reflink --reflink= --rsync-status -i --itemize-changes -v --verbose --debug --help --version --fsync --fsync= --verify --verify= --if-changed= --on-full= --bwlimit= --block-size= --ops= --direct --registered-buffers --direct-descriptors --fallocate --no-fallocate --no-readahead --no-advise --drop-cache --no-directory-first --no-inode-order --walk= --range-size= --copy-layout --reduce-stripes --no-stripe-offset --io-factor= --exclude= --include= --exclude-from= --files-from= --files0-from= --null --gitignore --exclude-caches --min-size= --max-size= --newer-than= --older-than= -j --jobs= --engine= --queue-depth= --look-ahead= --nice --iops-limit= --max-latency= --control= -g --progress --progress= --stats --stats= --events= --log-file= --clients= --account= --walltime= --queue= --launcher= --mpi-lib=' ;;
            haul_spdcp) words='-h --help -V --version -d -v -p -r -R -c -n -b -s -A -w -q' ;;
            haul_bzip2) words='-d --decompress -z --compress -k --keep -f --force -t --test -c --stdout -q --quiet -v --verbose -r --recursive -s --small -1 --fast -2 -3 -4 -5 -6 -7 -8 -9 --best -h --help -L -V --license --exclude= --include= --exclude-from= --files-from= --files0-from= --null --gitignore --exclude-caches --min-size= --max-size= --newer-than= --older-than= -j --jobs= --engine= --queue-depth= --look-ahead= --nice --iops-limit= --max-latency= --control= -g --progress --progress= --stats --stats= --events= --log-file= --debug --clients= --account= --walltime= --queue= --launcher= --mpi-lib=' ;;
            haul_cmp) words='--attributes --attributes= -q -s --quiet --brief --json -L --dereference -x --exclude= --one-file-system --direct --manifest= --hash= -h --help --version --include= --exclude-from= --files-from= --files0-from= --null --gitignore --exclude-caches --min-size= --max-size= --newer-than= --older-than= -j --jobs= --engine= --queue-depth= --look-ahead= --nice --iops-limit= --max-latency= --control= -g --progress --progress= --stats --stats= --events= --log-file= --debug --clients= --account= --walltime= --queue= --launcher= --mpi-lib=' ;;
            haul_each) words='--name= --type= --size= --newer= -L --dereference --shell --batch= --block= --sort= --halt= --dry-run -h --help --version --exclude= --include= --exclude-from= --files-from= --files0-from= --null --gitignore --exclude-caches --min-size= --max-size= --newer-than= --older-than= -j --jobs= --engine= --queue-depth= --look-ahead= --nice --iops-limit= --max-latency= --control= -g --progress --progress= --stats --stats= --events= --log-file= --debug --clients= --account= --walltime= --queue= --launcher= --mpi-lib=' ;;
            haul_grep) words='-E --extended-regexp -F --fixed-strings -G --basic-regexp -P --perl-regexp -e --regexp= -f --file= -i --ignore-case --no-ignore-case -w --word-regexp -x --line-regexp -z --null-data -s --no-messages -v --invert-match -V --version --help -m --max-count= -b --byte-offset -n --line-number --line-buffered -H --with-filename -h --no-filename --label= -o --only-matching -q --quiet --binary-files= -a --text -I -d --directories= -D --devices= -r --recursive -R --dereference-recursive --include= --exclude= --exclude-from= --exclude-dir= -L --files-without-match -l --files-with-matches -c --count -T --initial-tab -Z --null -B --before-context= -A --after-context= -C --context= --group-separator= --no-group-separator --color --color= --sort= -j --jobs= --engine= --queue-depth= --look-ahead= --nice --iops-limit= --max-latency= --control= -g --progress --progress= --stats --stats= --events= --log-file= --debug --clients= --account= --walltime= --queue= --launcher= --mpi-lib=' ;;
            haul_sum) words='--hash= --manifest-format= --tag -z --zero -o --output= -L --dereference -c --check -h --help --version --ignore-missing --quiet --status --strict -w --warn --exclude= --include= --exclude-from= --files-from= --files0-from= --null --gitignore --exclude-caches --min-size= --max-size= --newer-than= --older-than= -j --jobs= --engine= --queue-depth= --look-ahead= --nice --iops-limit= --max-latency= --control= -g --progress --progress= --stats --stats= --events= --log-file= --debug --clients= --account= --walltime= --queue= --launcher= --mpi-lib=' ;;
            haul_tar) words='-c --create -x --extract -t --list -f --file= -C --directory= -v --verbose -z --gzip -j --bzip2 --zstd -J --xz --lzma --lzip -Z --compress -I --use-compress-program= -a --auto-compress --exclude= -X --exclude-from= --anchored -T --files-from= --null --no-null -P --absolute-names -h --dereference --xattrs --xattrs-include= --xattrs-exclude= --acls -S --sparse --numeric-owner --help --version --format= --sort= --one-file-system --no-recursion --owner= --group= --mode= --mtime= --index -p --preserve-permissions --no-same-permissions -k --keep-old-files --skip-old-files --overwrite --same-owner -o --no-same-owner -m --touch --strip-components= --keep-directory-symlink -O --to-stdout -i --ignore-zeros --jobs= --engine= --queue-depth= --look-ahead= --nice --iops-limit= --max-latency= --control= --progress --progress= --stats --stats= --events= --log-file= --debug --clients= --account= --walltime= --queue= --launcher= --mpi-lib=' ;;
            haul_ctl) words='--json -h --help --version' ;;
            haul_bench) words='-h --help -V --version' ;;
            haul_bench_make) words='--files= --size= --directories= --fan-out= --depth= --scale= --seed= -h --help' ;;
            haul_bench_compare) words='--tree= --cache= --rounds= --fs= --source-fs= --same-fs --work= --haul= --before= --with= --haul-args= --rivals-path= --only= --time-limit= --json= --markdown --files= --size= --directories= --fan-out= --depth= --scale= --seed= -h --help' ;;
            haul_bench_auto) words='--trees= --file-systems= --cache= --latency= --rounds= --rounds-again= --scale= --seed= --work= --haul= --standin= --time-limit= --markdown= --json= --svg= -h --help' ;;
            haul_bench_run) words='--scale= --rounds= --work= --fs= --haul= --only= --ablate --time-limit= --standin= --mounts= --from= --json= --csv= --html= -h --help' ;;
            haul_bench_start) words='--runs= --work= --haul= --before= -h --help' ;;
            haul_bench_aio) words='--pattern= --kind= --engine= --direct --file-size= --record-size= --depth= --per-iteration= --max-submit= --alignment= --seed= --rounds= --json -h --help' ;;
            haul_bench_tools) words='--only= --scale= --tree= --rounds= --work= --haul= --standin= --time-limit= --json= -h --help' ;;
            haul_bench_simulate) words='--clients= --files= --list-rate= --lost-ranks= --restart-time= --stragglers= --straggler-speed= --target-spread= --seed= --json= --html= -h --help' ;;
            haul_help) words='' ;;
        esac
    else
        case $command in
            haul) words='cp sync spdcp bzip2 cmp each grep sum tar ctl bench help' ;;
            haul_cp) names=files ;;
            haul_sync) names=files ;;
            haul_spdcp) names=files ;;
            haul_bzip2) names=files ;;
            haul_cmp) names=files ;;
            haul_each) names=files ;;
            haul_grep) names=files ;;
            haul_sum) names=files ;;
            haul_tar) names=files ;;
            haul_ctl) case $position in 1) names=files ;; 2) words='status pause resume stop bwlimit iops-limit max-latency' ;; esac ;;
            haul_bench) words='make compare auto run start aio tools simulate' ;;
            haul_bench_make) words='binary broad fat deep flat many large practical' names=files ;;
            haul_bench_compare) words='binary broad fat deep flat many large practical' ;;
            haul_bench_auto) names=files ;;
            haul_bench_run) words='s1 s2 s3 s4 s5' ;;
            haul_bench_start) names=files ;;
            haul_bench_aio) names=files ;;
            haul_bench_tools) words='bzip2 tar grep cmp ranks' ;;
            haul_bench_simulate) names=files ;;
            haul_help) words='cp sync spdcp bzip2 cmp each grep sum tar ctl bench' ;;
        esac
    fi

    local begun=
    if [[ $list ]]; then
        words=$list
        [[ $cur == *,* ]] && begun=${cur%,*},
        compopt -o nospace
    fi
    # Not by compgen -W, which runs command substitutions: what is on the line is not to be run.
    for word in $words; do
        [[ $begun$word == "$cur"* && ,$begun != *,"$word",* ]] && COMPREPLY+=("$lead$begun$word")
    done
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == --*= ]] && compopt -o nospace
    case $names in
        files) ;;
        directories) compopt +o default +o bashdefault -o dirnames ;;
        programs) mapfile -t COMPREPLY < <(compgen -P "$lead" -c -- "$cur") ;;
        *) compopt +o default +o bashdefault ;;
    esac
}

complete -o bashdefault -o default -F _haul haul
[[ $(type -P cp) -ef $(type -P haul) ]] && complete -o bashdefault -o default -F _haul cp
[[ $(type -P spdcp) -ef $(type -P haul) ]] && complete -o bashdefault -o default -F _haul spdcp
[[ $(type -P bzip2) -ef $(type -P haul) ]] && complete -o bashdefault -o default -F _haul bzip2
[[ $(type -P bunzip2) -ef $(type -P haul) ]] && complete -o bashdefault -o default -F _haul bunzip2
[[ $(type -P bzcat) -ef $(type -P haul) ]] && complete -o bashdefault -o default -F _haul bzcat
:
