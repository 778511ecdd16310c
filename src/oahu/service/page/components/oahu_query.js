// What is searched for, large, with all that is known of it.
import Thumbnail from "oahu_thumbnail";

export default {
  components: { Thumbnail },
  props: { data: String },
  emits: ["back", "compare"],
  computed: {
    d() {
      return JSON.parse(this.data);
    },
  },
  template: `
    <aside v-if="d.item" class="plate" :aria-label="'What was searched for: ' + d.item.key">
      <div class="large"><Thumbnail :item="d.item"/></div>
      <div class="facts">
        <p class="over">More like</p>
        <h2>{{ d.item.key }}</h2>
        <p class="tally" aria-live="polite"><b class="alike">= {{ d.alike }}</b> alike <b class="unlike">≠ {{ d.unlike }}</b> not alike</p>
        <p v-if="d.hint" class="hint">{{ d.hint }}</p>
        <dl v-if="d.item.facts.length || d.item.label">
          <template v-if="d.item.label"><dt>label</dt><dd>{{ d.item.label }}</dd></template>
          <template v-for="fact in d.item.facts"><dt>{{ fact[0] }}</dt><dd>{{ fact[1] }}</dd></template>
        </dl>
        <button type="button" class="quiet" @click="$emit('back')">Back to the gallery <kbd>Esc</kbd></button>
      </div>
    </aside>`,
};
