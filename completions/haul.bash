# Completion of haul for bash, and of cp and spdcp where they are haul.
# Generated from the options' definitions: cargo xtask gen.

_haul() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    local command=haul option= lead= words= list= names= ended= word
    local IFS=$' \t\n'
    COMPREPLY=()
    [[ ${COMP_WORDS[0]##*/} == @(cp|spdcp) ]] && command=haul_${COMP_WORDS[0]##*/}
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        [[ $word == -- ]] && ended=yes
        case $command/$word in
            haul/cp) command=haul_cp ;;
            haul/spdcp) command=haul_spdcp ;;
            haul/bench) command=haul_bench ;;
            haul_bench/make) command=haul_bench_make ;;
            haul_bench/compare) command=haul_bench_compare ;;
            haul_bench/run) command=haul_bench_run ;;
            haul_bench/aio) command=haul_bench_aio ;;
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
            haul_cp:--no-preserve | haul_cp:--sparse | haul_cp:--suffix | haul_cp:--target-directory | haul_cp:--jobs | haul_cp:--engine | haul_cp:--queue-depth | haul_cp:--block-size | haul_cp:--look-ahead | haul_cp:--ops | haul_cp:--clients | haul_cp:--account | haul_cp:--walltime | haul_cp:--queue | haul_cp:--launcher | haul_cp:--mpi-lib | haul_cp:--walk | haul_cp:--range-size | haul_cp:--journal | haul_cp:--io-factor) option=$prev ;;
            haul_cp:-[Stj] | haul_cp:-[!-]*[Stj]) option=-${prev: -1} ;;
            haul_spdcp:-[bsAwq] | haul_spdcp:-[!-]*[bsAwq]) option=-${prev: -1} ;;
            haul_bench_make:--files | haul_bench_make:--size | haul_bench_make:--directories | haul_bench_make:--fan-out | haul_bench_make:--depth | haul_bench_make:--scale | haul_bench_make:--seed) option=$prev ;;
            haul_bench_compare:--tree | haul_bench_compare:--cache | haul_bench_compare:--rounds | haul_bench_compare:--fs | haul_bench_compare:--source-fs | haul_bench_compare:--work | haul_bench_compare:--haul | haul_bench_compare:--with | haul_bench_compare:--haul-args | haul_bench_compare:--rivals-path | haul_bench_compare:--only | haul_bench_compare:--time-limit | haul_bench_compare:--json | haul_bench_compare:--files | haul_bench_compare:--size | haul_bench_compare:--directories | haul_bench_compare:--fan-out | haul_bench_compare:--depth | haul_bench_compare:--scale | haul_bench_compare:--seed) option=$prev ;;
            haul_bench_run:--scale | haul_bench_run:--rounds | haul_bench_run:--work | haul_bench_run:--fs | haul_bench_run:--haul | haul_bench_run:--only | haul_bench_run:--time-limit | haul_bench_run:--standin | haul_bench_run:--mounts | haul_bench_run:--from | haul_bench_run:--json | haul_bench_run:--csv | haul_bench_run:--html) option=$prev ;;
            haul_bench_aio:--pattern | haul_bench_aio:--kind | haul_bench_aio:--engine | haul_bench_aio:--file-size | haul_bench_aio:--record-size | haul_bench_aio:--depth | haul_bench_aio:--per-iteration | haul_bench_aio:--max-submit | haul_bench_aio:--alignment | haul_bench_aio:--seed | haul_bench_aio:--rounds) option=$prev ;;
            haul_bench_simulate:--clients | haul_bench_simulate:--files | haul_bench_simulate:--seed | haul_bench_simulate:--json | haul_bench_simulate:--html) option=$prev ;;
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
            haul_cp:--engine) words='auto sync io-uring posix-aio kernel-aio retry' ;;
            haul_cp:--ops) words='single multi batch' ;;
            haul_cp:--stats) words='json' ;;
            haul_cp:-g | haul_cp:--progress) words='auto always never' ;;
            haul_cp:--mpi-lib) names=files ;;
            haul_cp:--walk) words='launch ranks' ;;
            haul_cp:--journal) names=files ;;
            haul_bench_compare:--tree) names=directories ;;
            haul_bench_compare:--cache) list='cold warm' ;;
            haul_bench_compare:--fs) words='ext4 xfs btrfs' ;;
            haul_bench_compare:--source-fs) words='ext4 xfs btrfs' ;;
            haul_bench_compare:--work) names=directories ;;
            haul_bench_compare:--haul) names=files ;;
            haul_bench_compare:--rivals-path) names=directories ;;
            haul_bench_compare:--json) names=files ;;
            haul_bench_run:--work) names=directories ;;
            haul_bench_run:--fs) words='ext4 xfs btrfs' ;;
            haul_bench_run:--haul) names=files ;;
            haul_bench_run:--standin) names=files ;;
            haul_bench_run:--from) names=files ;;
            haul_bench_run:--json) names=files ;;
            haul_bench_run:--csv) names=files ;;
            haul_bench_run:--html) names=files ;;
            haul_bench_aio:--pattern) list='sequential random' ;;
            haul_bench_aio:--kind) list='read sync-write write' ;;
            haul_bench_aio:--engine) list='sync io-uring posix-aio kernel-aio retry' ;;
            haul_bench_simulate:--json) names=files ;;
            haul_bench_simulate:--html) names=files ;;
        esac
    elif [[ $cur == -* && ! $ended ]]; then
        names=files
        case $command in
            haul) words='cp spdcp bench help --help --version' ;;
            haul_cp) words='-a --archive --attributes-only --backup --backup= -b --copy-contents -d --debug -L --dereference -f --force -H -i --interactive -l --link -n --no-clobber -P --no-dereference -p --no-preserve= -T --no-target-directory -x --one-file-system --parents --path --preserve --preserve= -R -r --recursive --remove-destination --sparse= --reflink --reflink= --strip-trailing-slashes -S --suffix= -s --symbolic-link -t --target-directory= -u --update --update= -v --verbose --keep-directory-symlink -Z --context --context= --help --version -j --jobs= --engine= --queue-depth= --block-size= --look-ahead= --ops= --direct --registered-buffers --direct-descriptors --fallocate --no-fallocate --no-readahead --no-advise --drop-cache --no-directory-first --no-inode-order --stats --stats= -g --progress --progress= --clients= --account= --walltime= --queue= --launcher= --mpi-lib= --walk= --range-size= --journal= --copy-layout --reduce-stripes --no-stripe-offset --io-factor=' ;;
            haul_spdcp) words='-h -V -d -v -p -r -R -c -n -b -s -A -w -q' ;;
            haul_bench) words='-h --help' ;;
            haul_bench_make) words='--files= --size= --directories= --fan-out= --depth= --scale= --seed= -h --help' ;;
            haul_bench_compare) words='--tree= --cache= --rounds= --fs= --source-fs= --same-fs --work= --haul= --with= --haul-args= --rivals-path= --only= --time-limit= --json= --markdown --files= --size= --directories= --fan-out= --depth= --scale= --seed= -h --help' ;;
            haul_bench_run) words='--scale= --rounds= --work= --fs= --haul= --only= --ablate --time-limit= --standin= --mounts= --from= --json= --csv= --html= -h --help' ;;
            haul_bench_aio) words='--pattern= --kind= --engine= --direct --file-size= --record-size= --depth= --per-iteration= --max-submit= --alignment= --seed= --rounds= --json -h --help' ;;
            haul_bench_simulate) words='--clients= --files= --seed= --json= --html= -h --help' ;;
            haul_help) words='' ;;
        esac
    else
        case $command in
            haul) words='cp spdcp bench help' ;;
            haul_cp) names=files ;;
            haul_spdcp) names=files ;;
            haul_bench) words='make compare run aio simulate' ;;
            haul_bench_make) words='binary broad fat deep flat many large practical' names=files ;;
            haul_bench_compare) words='binary broad fat deep flat many large practical' ;;
            haul_bench_run) words='s1 s2 s3 s4 s5' ;;
            haul_bench_aio) names=files ;;
            haul_bench_simulate) names=files ;;
            haul_help) words='cp spdcp bench' ;;
        esac
    fi

    if [[ $list ]]; then
        local begun=
        [[ $cur == *,* ]] && begun=${cur%,*},
        for word in $list; do
            [[ ,$begun == *,$word,* ]] || words+=" $begun$word"
        done
        compopt -o nospace
    fi
    COMPREPLY=($(compgen -P "$lead" -W "$words" -- "$cur"))
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == --*= ]] && compopt -o nospace
    case $names in
        files) ;;
        directories) compopt +o default +o bashdefault -o dirnames ;;
        *) compopt +o default +o bashdefault ;;
    esac
}

complete -o bashdefault -o default -F _haul haul
[[ $(type -P cp) -ef $(type -P haul) ]] && complete -o bashdefault -o default -F _haul cp
[[ $(type -P spdcp) -ef $(type -P haul) ]] && complete -o bashdefault -o default -F _haul spdcp
:
