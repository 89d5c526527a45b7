{{- /*
These templates do what Kustomize does with base/ and components/, as far as those use it: resources,
configMapGenerator, patches (JSON patches), replacements and images. Tests hold both to the same objects.

The state is {files, objects, maps, labels, images}: the chart's files, the list of objects, the data and
labels of ConfigMaps whose names get a hash, and images by their names in the manifests. A template returns text alone, so that each value comes back as {"v": value} in JSON.
*/ -}}

{{- /* One operation of a JSON patch: {doc, parts, op, value} -> the document. */ -}}
{{- define "warpline.operate" -}}
{{- $head := first .parts | replace "~1" "/" | replace "~0" "~" -}}
{{- $last := eq (len .parts) 1 -}}
{{- $doc := .doc -}}
{{- if kindIs "map" $doc -}}
  {{- if and $last (eq .op "remove") -}}
    {{- if not (hasKey $doc $head) }}{{ fail (printf "a patch removes %s, which is not there" $head) }}{{ end -}}
    {{- $doc = omit $doc $head -}}
  {{- else if $last -}}
    {{- $_ := set $doc $head .value -}}
  {{- else -}}
    {{- if not (hasKey $doc $head) }}{{ fail (printf "a patch names %s, which is not there" $head) }}{{ end -}}
    {{- $inner := include "warpline.operate" (merge (dict "doc" (get $doc $head) "parts" (rest .parts)) (omit . "doc" "parts")) -}}
    {{- $_ := set $doc $head (fromJson $inner).v -}}
  {{- end -}}
{{- else if eq $head "-" -}}
  {{- $doc = append $doc .value -}}
{{- else -}}
  {{- $made := list -}}
  {{- $given := . -}}
  {{- $at := int $head -}}
  {{- range $i, $item := $doc -}}
    {{- if ne $i $at -}}
      {{- $made = append $made $item -}}
    {{- else if not $last -}}
      {{- $inner := include "warpline.operate" (merge (dict "doc" $item "parts" (rest $given.parts)) (omit $given "doc" "parts")) -}}
      {{- $made = append $made (fromJson $inner).v -}}
    {{- else if eq $given.op "add" -}}
      {{- $made = append (append $made $given.value) $item -}}
    {{- else if eq $given.op "replace" -}}
      {{- $made = append $made $given.value -}}
    {{- end -}}
  {{- end -}}
  {{- $doc = $made -}}
{{- end -}}
{{- toJson (dict "v" $doc) -}}
{{- end -}}

{{- /* Operations on all objects of a kind and name: {state, target, operations, optional}. Kustomize lets a
patch be for nothing; whoever writes one into the values is told. */ -}}
{{- define "warpline.patch" -}}
{{- $given := . -}}
{{- $made := list -}}
{{- $found := false -}}
{{- range $object := .state.objects -}}
  {{- if and (eq $object.kind $given.target.kind) (eq $object.metadata.name $given.target.name) -}}
    {{- $found = true -}}
    {{- range $operation := $given.operations -}}
      {{- $parts := rest (splitList "/" $operation.path) -}}
      {{- $object = (fromJson (include "warpline.operate" (dict "doc" $object "parts" $parts "op" $operation.op "value" $operation.value))).v -}}
    {{- end -}}
  {{- end -}}
  {{- $made = append $made $object -}}
{{- end -}}
{{- if not (or $found .optional) }}{{ fail (printf "a patch is for %s %s, which is not there" $given.target.kind $given.target.name) }}{{ end -}}
{{- $_ := set .state "objects" $made -}}
{{- end -}}

{{- /* The data of one entry of a configMapGenerator: {state, folder, entry}. */ -}}
{{- define "warpline.data" -}}
{{- $data := dict -}}
{{- $given := . -}}
{{- range $literal := .entry.literals -}}
  {{- $pair := splitn "=" 2 $literal -}}
  {{- $_ := set $data $pair._0 $pair._1 -}}
{{- end -}}
{{- range $file := .entry.files -}}
  {{- $_ := set $data $file ($given.state.files.Get (printf "%s/%s" $given.folder $file)) -}}
{{- end -}}
{{- toJson $data -}}
{{- end -}}

{{- /* Adds a folder with a kustomization.yaml to the state: {state, folder}. */ -}}
{{- define "warpline.add" -}}
{{- $state := .state -}}
{{- $folder := .folder -}}
{{- $kustomization := $state.files.Get (printf "%s/kustomization.yaml" $folder) | fromYaml -}}
{{- if not $kustomization.kind }}{{ fail (printf "%s has no kustomization.yaml" $folder) }}{{ end -}}
{{- range $file := $kustomization.resources -}}
  {{- range $text := splitList "\n---\n" ($state.files.Get (printf "%s/%s" $folder $file)) -}}
    {{- $object := fromYaml $text -}}
    {{- if not $object.kind }}{{ fail (printf "%s/%s: %s" $folder $file $object.Error) }}{{ end -}}
    {{- if and $kustomization.namespace (ne $object.kind "Namespace") -}}
      {{- $_ := set $object.metadata "namespace" $kustomization.namespace -}}
    {{- end -}}
    {{- range $labels := $kustomization.labels -}}
      {{- $_ := set $object.metadata "labels" (merge (dict) ($object.metadata.labels | default dict) $labels.pairs) -}}
    {{- end -}}
    {{- $_ := set $state "objects" (append $state.objects $object) -}}
  {{- end -}}
{{- end -}}
{{- range $entry := $kustomization.configMapGenerator -}}
  {{- $data := fromJson (include "warpline.data" (dict "state" $state "folder" $folder "entry" $entry)) -}}
  {{- if eq ($entry.behavior | default "create") "merge" -}}
    {{- $_ := set $state.maps $entry.name (mergeOverwrite (get $state.maps $entry.name) $data) -}}
  {{- else -}}
    {{- $_ := set $state.maps $entry.name $data -}}
    {{- range $labels := $kustomization.labels -}}
      {{- $_ := set $state.labels $entry.name $labels.pairs -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- range $patch := $kustomization.patches -}}
  {{- $text := $patch.patch | default "" -}}
  {{- if $patch.path }}{{ $text = $state.files.Get (printf "%s/%s" $folder $patch.path) }}{{ end -}}
  {{- include "warpline.patch" (dict "state" $state "target" $patch.target "operations" (fromYamlArray $text) "optional" true) -}}
{{- end -}}
{{- range $replacement := $kustomization.replacements -}}
  {{- $source := get $state.maps $replacement.source.name -}}
  {{- $value := get $source (trimPrefix "data." $replacement.source.fieldPath) -}}
  {{- range $target := $replacement.targets -}}
    {{- range $path := $target.fieldPaths -}}
      {{- $operation := dict "op" "replace" "path" (printf "/%s" (replace "." "/" $path)) "value" $value -}}
      {{- include "warpline.patch" (dict "state" $state "target" $target.select "operations" (list $operation) "optional" true) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{- /* A text with the images and the names of ConfigMaps that objects name: {state, text}. Kustomize's
hash is another one, and changes when this one does. */ -}}
{{- define "warpline.named" -}}
{{- $text := .text -}}
{{- range $name, $data := .state.maps -}}
  {{- $text = replace (printf "name: %s\n" $name) (printf "name: %s-%s\n" $name (toJson $data | sha256sum | trunc 10)) $text -}}
{{- end -}}
{{- range $name, $image := .state.images -}}
  {{- $text = replace (printf "image: %s\n" $name) (printf "image: %s\n" $image) $text -}}
{{- end -}}
{{- $text -}}
{{- end -}}
