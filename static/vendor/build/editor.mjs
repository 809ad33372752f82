// The one CodeMirror bundle that Weir's editor uses: JSON and YAML, a gutter, lint marks, search, completion.
export { EditorView, keymap, lineNumbers, highlightActiveLine, highlightActiveLineGutter, drawSelection, hoverTooltip, placeholder } from "@codemirror/view";
export { EditorState, Compartment, EditorSelection } from "@codemirror/state";
export { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
export { autocompletion, completionKeymap, completionStatus, startCompletion } from "@codemirror/autocomplete";
export { setDiagnostics, lintGutter, lintKeymap, nextDiagnostic, forceLinting } from "@codemirror/lint";
export { searchKeymap, highlightSelectionMatches } from "@codemirror/search";
export { indentOnInput, bracketMatching, syntaxHighlighting, HighlightStyle, foldGutter, foldKeymap } from "@codemirror/language";
export { tags } from "@lezer/highlight";
export { json } from "@codemirror/lang-json";
export { yaml } from "@codemirror/lang-yaml";
