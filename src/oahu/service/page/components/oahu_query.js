// The query item with its label and payload.
import Thumbnail from "oahu_thumbnail";

export default {
  components: { Thumbnail },
  props: { data: String },
  emits: ["back"],
  computed: {
    content() {
      return JSON.parse(this.data);
    },
  },
  template: `
    <aside v-if="content.item" class="query-panel" :aria-label="'Query: ' + content.item.key">
      <div class="large"><Thumbnail :item="content.item"/></div>
      <div class="details">
        <p class="caption">Items like</p>
        <h2>{{ content.item.key }}</h2>
        <p class="counts" aria-live="polite"><b class="similar">= {{ content.n_similar }}</b> alike <b class="dissimilar">≠ {{ content.n_dissimilar }}</b> not alike</p>
        <p v-if="content.hint" class="hint">{{ content.hint }}</p>
        <dl v-if="content.item.payload.length || content.item.label">
          <template v-if="content.item.label"><dt>label</dt><dd>{{ content.item.label }}</dd></template>
          <template v-for="field in content.item.payload"><dt>{{ field[0] }}</dt><dd>{{ field[1] }}</dd></template>
        </dl>
        <button type="button" class="quiet" @click="$emit('back')">All items <kbd>Esc</kbd></button>
      </div>
    </aside>`,
};
