// The item that is searched for, with its label and payload.
import Thumbnail from "oahu_thumbnail";

export default {
  components: { Thumbnail },
  props: { data: String },
  emits: ["back"],
  computed: {
    d() {
      return JSON.parse(this.data);
    },
  },
  template: `
    <aside v-if="d.item" class="query-panel" :aria-label="'Query: ' + d.item.key">
      <div class="large"><Thumbnail :item="d.item"/></div>
      <div class="facts">
        <p class="over">Items like</p>
        <h2>{{ d.item.key }}</h2>
        <p class="tally" aria-live="polite"><b class="similar">= {{ d.n_similar }}</b> alike <b class="dissimilar">≠ {{ d.n_dissimilar }}</b> not alike</p>
        <p v-if="d.hint" class="hint">{{ d.hint }}</p>
        <dl v-if="d.item.payload.length || d.item.label">
          <template v-if="d.item.label"><dt>label</dt><dd>{{ d.item.label }}</dd></template>
          <template v-for="field in d.item.payload"><dt>{{ field[0] }}</dt><dd>{{ field[1] }}</dd></template>
        </dl>
        <button type="button" class="quiet" @click="$emit('back')">All items <kbd>Esc</kbd></button>
      </div>
    </aside>`,
};
