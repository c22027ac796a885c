{{/* The flags of the services, as lists. In mode split they listen on TCP, else on sockets of the pod. */}}

{{/* Arguments: root, the numbers of the service's HTTP and health ports. */}}
{{- define "bastion.commonFlags" -}}
{{- $values := (index . 0).Values -}}
- --target=/models/{{ $values.model.target }}
- --health_listen={{ $values.listenAddress }}:{{ index . 2 }}
{{- if or $values.metrics.enabled (and $values.openai.enabled (eq (index . 1) 9070)) }}
- --http_listen={{ $values.listenAddress }}:{{ index . 1 }}
{{- end }}
{{- if or $values.tls.secret (eq $values.mode "split") }}
- --tls_cert=/etc/bastion/tls/tls.crt
- --tls_key=/etc/bastion/tls/tls.key
{{- else }}
- --allow_plaintext
{{- end }}
{{- end }}

{{/* How an engine of mode split knows its callers. */}}
{{- define "bastion.mutualTls" -}}
- --tls_ca=/etc/bastion/tls/ca.crt
- --tls_require_client_cert
- --access_file=/etc/bastion/callers/access
{{- end }}

{{- define "bastion.verifierFlags" -}}
{{ include "bastion.commonFlags" (list . 9072 8072) }}
- --weights={{ .Values.verifier.dtype }}
- --kv_tokens={{ int64 .Values.verifier.kvTokens }}
- --threads={{ .Values.verifier.cpus }}
- --gemm_table=/var/lib/bastion/verifier-gemms
{{- if eq .Values.mode "split" }}
- --listen={{ .Values.listenAddress }}:7072
{{ include "bastion.mutualTls" . }}
{{- else }}
- --listen=unix:///run/bastion/sockets/verifier.sock
- --shared_memory=/run/bastion/sockets
{{- end }}
{{- range .Values.verifier.flags }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{- define "bastion.drafterFlags" -}}
{{ include "bastion.commonFlags" (list . 9071 8071) }}
- --drafter=/models/{{ .Values.model.drafter }}
- --weights={{ .Values.drafter.dtype }}
- --kv_tokens={{ int64 .Values.drafter.kvTokens }}
- --threads={{ .Values.drafter.cpus }}
- --gemm_table=/var/lib/bastion/drafter-gemms
{{- if eq .Values.mode "split" }}
- --listen={{ .Values.listenAddress }}:7071
- --verifier={{ include "bastion.peer" (list . "verifier" 7072) }}
{{ include "bastion.mutualTls" . }}
{{- else }}
- --listen=unix:///run/bastion/sockets/drafter.sock
- --verifier=unix:///run/bastion/sockets/verifier.sock
- --shared_memory=/run/bastion/sockets
{{- end }}
{{- range .Values.drafter.flags }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{- define "bastion.orchestratorFlags" -}}
{{ include "bastion.commonFlags" (list . 9070 8070) }}
- --listen={{ .Values.listenAddress }}:7070
{{- if .Values.openai.enabled }}
- --http_hosts={{ include "bastion.hosts" . }}
{{- end }}
- --max_running={{ .Values.orchestrator.maxRunning }}
- --max_waiting={{ .Values.orchestrator.maxWaiting }}
- --acceptance_calibration=/var/lib/bastion/acceptance
- --grace={{ .Values.drain.longestAnswerSeconds }}s
{{- if .Values.model.prior }}
- --prior=/models/{{ .Values.model.drafter }}
{{- end }}
{{- if eq .Values.mode "split" }}
- --tls_ca=/etc/bastion/tls/ca.crt
- --verifier={{ include "bastion.peer" (list . "verifier" 7072) }}
- --drafter={{ include "bastion.peer" (list . "drafter" 7071) }}
- --verifier_patience={{ .Values.split.verifierPatienceSeconds }}s
{{- else }}
{{- if .Values.tls.requireClientCert }}
- --tls_ca=/etc/bastion/tls/ca.crt
{{- end }}
- --verifier=unix:///run/bastion/sockets/verifier.sock
- --drafter=unix:///run/bastion/sockets/drafter.sock
{{- end }}
{{- if .Values.tls.requireClientCert }}
- --tls_require_client_cert
{{- end }}
{{- if .Values.access.secret }}
- --access_file=/etc/bastion/access/access
{{- end }}
{{- range .Values.orchestrator.flags }}
- {{ . | quote }}
{{- end }}
{{- end }}
