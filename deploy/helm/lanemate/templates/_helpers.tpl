{{- define "lanemate.labels" -}}
app.kubernetes.io/name: lanemate
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "lanemate.image" -}}
{{ .root.Values.image.registry }}/{{ .name }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
{{- end }}

{{/* What both programs and the hook have in their pods. */}}
{{- define "lanemate.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/*
The objects of a file of deploy/, which is for the namespace lanemate-system, for this release: in its namespace, with its labels
and `annotations`. Namespaces are left to Helm. Arguments: root, file, annotations.
*/}}
{{- define "lanemate.objects" -}}
{{- $root := .root }}
{{- $annotations := .annotations | default dict }}
{{- $account := printf "system:serviceaccount:%s:" $root.Release.Namespace }}
{{- $text := $root.Files.Get .file | required (printf "the chart has no file %s" .file) }}
{{- $text = $text | replace "system:serviceaccount:lanemate-system:" $account }}
{{- range $document := splitList "\n---\n" $text }}
{{- $object := fromYaml $document }}
{{- if and $object.kind (ne $object.kind "Namespace") }}
{{- $metadata := $object.metadata }}
{{- if $metadata.namespace }}
{{- $_ := set $metadata "namespace" $root.Release.Namespace }}
{{- end }}
{{- range $object.subjects }}
{{- $_ := set . "namespace" $root.Release.Namespace }}
{{- end }}
{{- $labels := merge ($metadata.labels | default dict) (fromYaml (include "lanemate.labels" $root)) }}
{{- $_ := set $metadata "labels" $labels }}
{{- with $annotations }}
{{- $_ := set $metadata "annotations" (merge ($metadata.annotations | default dict) .) }}
{{- end }}
---
{{ toYaml $object }}
{{ end }}
{{- end }}
{{- end }}
