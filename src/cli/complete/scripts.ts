// The scripts that shells load. They call `svc complete words` for each completion. The output has one line per
// candidate, with its description after a tab. The line `:files` also requests file names.

const BASH = `# svc in bash: source <(svc complete bash)
_svc() {
  local IFS=$'\\n' line files= cur=\${COMP_WORDS[COMP_CWORD]}
  # Of --format=json, bash makes three words.
  [[ $cur == "=" ]] && cur=
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ $line == ":files" ]]; then
      files=1
    else
      COMPREPLY+=("\${line%%$'\\t'*}")
    fi
  done < <("\${COMP_WORDS[0]/#\\~/$HOME}" complete words -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  [[ -n $files ]] || return 0
  # Readline knows about ~ and quotes; an older bash has no option to use it.
  if (( \${#COMPREPLY[@]} > 0 )) || ! compopt -o default 2>/dev/null; then
    COMPREPLY+=($(compgen -f -- "$cur"))
  fi
}
complete -F _svc svc`;

const ZSH = `#compdef svc
# svc in zsh: source <(svc complete zsh), or this file as _svc in a folder of $fpath
_svc() {
  local line value text files=
  local -a found
  while IFS= read -r line; do
    if [[ $line == ":files" ]]; then
      files=1
    else
      value=\${line%%$'\\t'*}
      text=\${line#*$'\\t'}
      found+=("\${value//:/\\\\:}\${text:+:$text}")
    fi
  done < <("\${words[1]/#\\~/$HOME}" complete words -- "\${(@Q)words[2,CURRENT]}" 2>/dev/null)
  (( \${#found} )) && _describe svc found
  [[ -n $files ]] && _files
}
if [[ $funcstack[1] == _svc ]]; then
  _svc "$@"
else
  compdef _svc svc
fi`;

const FISH = `# svc in fish: svc complete fish | source
function __svc_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in (command $words[1] complete words -- $words[2..-1] "$current" 2>/dev/null)
        if test "$line" = ":files"
            __fish_complete_path "$current"
        else
            echo $line
        end
    end
end
complete -c svc -f -a '(__svc_complete)'`;

export const SCRIPTS: Readonly<Record<string, string>> = { bash: BASH, zsh: ZSH, fish: FISH };
