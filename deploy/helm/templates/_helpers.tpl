{{- define "rollcall.selector" -}}
app.kubernetes.io/name: rollcall
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "rollcall.labels" -}}
{{ include "rollcall.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "rollcall.port" -}}
{{ splitList ":" . | last }}
{{- end }}

{{- /* JSON's strings and whole numbers are TOML's too. A setting that is null is left out. */ -}}
{{- define "rollcall.toml" -}}
{{- range $name, $value := .Values.settings }}
{{- if not (kindIs "invalid" $value) }}
{{ $name }} = {{ toRawJson $value }}
{{- end }}
{{- end }}
wait-for-store = "{{ int .Values.waitForStore }}s"
drain = "{{ int .Values.drain }}s"
{{- end }}
