# te.bash - completion for the te-* commands. All comes from --help, so it never goes stale.
# zsh: autoload -U +X bashcompinit && bashcompinit, then source this file.
_te()
{
	local cur=${COMP_WORDS[COMP_CWORD]} opt='' help words

	help=$("$1" --help 2>/dev/null) || return 0
	if [[ $cur == = ]]; then
		opt=${COMP_WORDS[COMP_CWORD - 1]} cur=''
	elif ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[COMP_CWORD - 1]} == = ]]; then
		opt=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	if [[ $opt == --* ]]; then
		# --protocol=auto|tcp|rdma: the values that help names
		words=$(grep -oE -- "${opt//_/-}(\[)?=[a-z0-9|]+" <<<"$help" | head -n 1)
		words=${words#*=}
		[[ $words == *'|'* ]] || return 0
		mapfile -t COMPREPLY < <(compgen -W "${words//|/ }" -- "$cur")
	elif [[ $cur == -* ]]; then
		words=$(grep -oE '(^|[ ,])--[a-z][a-z0-9-]*=?' <<<"$help" | grep -oE -- '--.*')
		mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
		[[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null || :
	elif ((COMP_CWORD == 1)); then
		# get|put|...: the verbs of the usage line
		words=$(grep -oE '[a-z]+(\|[a-z]+)+' <<<"${help%%$'\n\n'*}" | head -n 1)
		mapfile -t COMPREPLY < <(compgen -W "${words//|/ }" -- "$cur")
	fi
}
complete -o default -F _te te-target te-bench te-meta te-http-meta te-topo te-register te-mount
