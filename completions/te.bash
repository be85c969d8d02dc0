# te.bash - completion for the te-* commands. All comes from --help, so it never goes stale.
# zsh: autoload -U +X bashcompinit && bashcompinit, then source this file.

# What --help defines, an option's names and value a line; not the options that its text mentions.
_te_options()
{
	sed -nE 's/^ {2,6}(-., )?(--[^ ]+( --[^ ]+)*).*/\2/p' <<<"$1"
}

_te()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} opt='' help words word

	help=$("$1" --help 2>/dev/null) || return 0
	# -i is followed by what --input= is
	if [[ $prev == -[A-Za-z] ]]; then
		word=$(sed -nE "s/^ {2,6}$prev, (--[a-z-]+)=.*/\1/p" <<<"$help")
		prev=${word:-$prev}
	fi
	if [[ $cur == = ]]; then
		opt=$prev cur=''
	elif ((COMP_CWORD > 1)) && [[ $prev == = ]]; then
		opt=${COMP_WORDS[COMP_CWORD - 2]}
	elif [[ $prev == --* ]] && _te_options "$help" | grep -qE -- "${prev//_/-}="; then
		opt=$prev # its value is the next word
	fi
	if [[ $opt == --* ]]; then
		# --protocol=auto|tcp|rdma: the values that help names, but not FILE|JSON
		words=$(_te_options "$help" | grep -oE -- "${opt//_/-}(\[)?=[A-Za-z0-9|]+" | head -n 1)
		words=${words#*=}
		[[ $words == *[a-z]*'|'* ]] || return 0
		mapfile -t COMPREPLY < <(compgen -W "${words//|/ }" -- "$cur")
	elif [[ $cur == -* ]]; then
		words=$(_te_options "$help" | grep -oE '(^|[ ,])--[a-z][a-z0-9-]*=?' | grep -oE -- '--.*')
		# --block_size is --block-size, as Mooncake's tools write it
		[[ $cur != --*_* ]] || words=$(sed 's/-/_/3g' <<<"$words")
		mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
		[[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null || :
	else
		# get|put|...: the verbs of the usage line, until one is there
		words=$(grep -oE '[a-z]+(\|[a-z]+)+' <<<"${help%%$'\n\n'*}" | head -n 1)
		for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
			[[ "|$words|" != *"|$word|"* ]] || return 0
		done
		mapfile -t COMPREPLY < <(compgen -W "${words//|/ }" -- "$cur")
	fi
}
complete -o default -F _te te-target te-bench te-meta te-http-meta te-topo te-register te-mount
